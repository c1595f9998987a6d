"""The pictures of docs/dashboard.md: `python -m bench.screenshots`, about two minutes. Real managers, real jobs, a real simulation.

Needs Chromium and playwright (the development environment has it).
"""

import contextlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.dashboard import SERVE, chromium, serving

from headway.demo.jobs import DemoJob

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "dashboard"
MOST_BYTES = 200_000
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
LOAD_S = 45.0
FABRIC = "name: lab\nkind: leaf-spine\nleaves: 6\nservers_per_leaf: 4\ngpus_per_server: 4\nspines: 4\n"
RUN = "large.csv --cluster 24x4 --fabric lab.yaml --network ecmp --policy tiresias-l"


def load(client: Any, folder: Path) -> None:
    """Training jobs of many sizes for a while, so that there is something to see."""
    chance, began, count = random.Random(3), time.monotonic(), 0
    while time.monotonic() - began < LOAD_S:
        if sum(job.state == "PENDING" for job in client.jobs()) < 8:
            count += 1
            gpus = chance.choice((1, 1, 2, 2, 2, 4))
            name = f"{chance.choice(('bert', 'gpt', 'resnet', 'vit', 'moe'))}-{count}"
            steps = chance.choice((20, 40, 80, 300))
            spec = DemoJob(0.0, name, chance.choice((1, 1, 1, 2)) if gpus == 4 else 1, gpus, steps).spec(folder)
            client.submit_spec({**spec, "tasks_per_node": 1, "queue": chance.choice(("", "vision", "language"))})
        time.sleep(0.6)


@contextlib.contextmanager
def playing(folder: Path) -> Iterator[str]:
    """`headway simulate --web` on jobs of up to 12 GPUs; its address."""
    chance, rows, at = random.Random(1), ["job_id,submit_s,gpus,duration_s,user"], 0.0
    for number in range(60):
        at += chance.expovariate(1 / 140)
        sizes = chance.choice((1, 2, 4, 4, 8, 8, 8, 12))
        rows.append(f"{number},{at:.1f},{sizes},{chance.uniform(600, 3000):.0f},{chance.choice(('ada', 'bob', 'eve'))}")
    (folder / "large.csv").write_text("\n".join(rows) + "\n")
    (folder / "lab.yaml").write_text(FABRIC)
    command = [sys.executable, "-c", SERVE, "simulate", *RUN.split(), "--web"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        yield next(found[0] for line in process.stderr if (found := re.search(r"http://\S+", line)))
    finally:
        process.terminate()
        process.wait(20)


def packed(picture: bytes) -> bytes:
    """The same PNG, packed harder: browsers are in a hurry."""
    parts, at, data = [], 8, b""
    while at < len(picture):
        size, kind = struct.unpack(">I4s", picture[at : at + 8])
        content = picture[at + 8 : at + 8 + size]
        at += 12 + size
        if kind == b"IDAT":
            data += content
            continue
        if kind == b"IEND":
            parts.append((b"IDAT", zlib.compress(zlib.decompress(data), 9)))
        parts.append((kind, content))
    whole = (struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in parts)
    return picture[:8] + b"".join(whole)


class Camera:
    """Opens pages and takes pictures of them."""

    def __init__(self, browser: Any, link: Callable[[], str]) -> None:
        self.browser, self.link = browser, link

    def open(self, scheme: str, size: dict[str, int]) -> Any:
        page = self.browser.new_context(viewport=size, color_scheme=scheme).new_page()
        page.set_default_timeout(60_000)
        page.goto(self.link())
        page.wait_for_selector(".gpu")
        page.wait_for_timeout(1500)
        return page

    def take(self, page: Any, name: str, whole: bool = False) -> None:
        page.evaluate("scrollTo(0, 0)")
        picture = packed(page.screenshot(full_page=whole))
        assert len(picture) < MOST_BYTES, f"{name}: {len(picture):,} bytes"
        (FOLDER / f"{name}.png").write_bytes(picture)
        print(f"{name}.png {len(picture):,} bytes", flush=True)


def live(browser: Any, folder: Path) -> None:
    """The pages of a manager."""
    with serving("--cluster", "6x4", "--policy", "tiresias-l?threshold=60") as (link, client):
        camera = Camera(browser, link)
        page = camera.open("light", WIDE)
        load(client, folder)
        camera.take(page, "overview", whole=True)
        page.evaluate("location.hash = '#/queue'")
        page.wait_for_selector(".vrow[data-job]")
        camera.take(page, "queue")
        preempted = max(client.jobs(), key=lambda job: (job.preemptions, job.job_id)).job_id
        page.evaluate("job => { location.hash = `#/job/${job}` }", preempted)
        page.wait_for_selector(".timeline svg")
        page.wait_for_timeout(1000)
        camera.take(page, "job", whole=True)
        page.evaluate("location.hash = '#/whatif'")
        page.get_by_role("button", name="Replay").click()
        page.wait_for_selector(".answer svg")
        camera.take(page, "what-if")
        camera.take(camera.open("dark", WIDE), "overview-dark")
        camera.take(camera.open("dark", PHONE), "overview-phone")


def recorded(browser: Any, folder: Path) -> None:
    """The pages of a simulation."""
    with playing(folder) as url:
        camera = Camera(browser, lambda: url)
        page = camera.open("light", WIDE)
        page.evaluate(
            "() => { const time = document.getElementById('time'); time.value = 5200; time.dispatchEvent(new Event('input')) }"
        )
        page.wait_for_timeout(2000)
        camera.take(page, "player")
        page.evaluate("location.hash = '#/network'")
        page.wait_for_selector(".matrix")
        camera.take(page, "network")


def main() -> None:
    """All pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        recorded(browser, Path(folder))
        live(browser, Path(folder))


if __name__ == "__main__":
    main()
