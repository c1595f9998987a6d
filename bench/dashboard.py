"""How quick the dashboard is with 10,000 jobs in the queue or in a recorded run: first paint, scrolling, and the answers behind it.

`python -m bench.dashboard`; needs Chromium and playwright (the development environment has it).
"""

import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headway.client.client import Client
from headway.client.folder import URL_FILE

JOBS, ROUNDS = 10_000, 5
ON_GPUS = ("STARTING", "RUNNING", "STOPPING")
SERVE = "from headway.cli.main import main; main()"
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# Milliseconds from the click on Queue to the first row that is painted, and between frames while the list is scrolled from end to end.
PAINT = """async () => {
  const began = performance.now();
  location.hash = '#/queue';
  while (!document.querySelector('.vrow[data-job]')) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""
SCROLL = """async () => {
  const box = document.querySelector('.vscroll'), frames = [];
  let last = performance.now();
  for (let i = 0; i <= 120; i++) {
    box.scrollTop = (box.scrollHeight - box.clientHeight) * i / 120;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    frames.push(now - last);
    last = now;
  }
  return frames;
}"""
FIRST = """() => performance.getEntriesByName('first-contentful-paint')[0].startTime"""


@contextlib.contextmanager
def serving(*options: str) -> Iterator[tuple[Callable[[], str], Client]]:
    """A manager on a free port: links that sign in, one by one, and a client."""
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as folder:
        data = Path(folder)
        command = [sys.executable, "-c", SERVE, "serve", "--port", "0", "--data", folder, *options]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not (data / URL_FILE).exists():
                time.sleep(0.1)
            with Client(data=data) as client:
                yield client.dashboard, client
                for node in client.nodes():
                    client.set_node(node["name"], "drain")
                running = [job.job_id for job in client.jobs(state=ON_GPUS)]
                client.act_all("cancel", running, True)
                for job_id in running:
                    client.wait(job_id, 30)
        finally:
            process.terminate()
            process.wait(30)


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield found
        found.close()


def recorded() -> None:
    """How long a recorded run of 10,000 jobs takes to answer."""
    from headway.client.job import JobQuery
    from headway.player import scenes, wires
    from headway.player.film import Film
    from headway.sim.api import simulate

    film = Film(simulate(f"synthetic:tiresias-480?jobs={JOBS}", cluster="64x8", policy="tiresias-l", keep_journal=True))
    asked: dict[str, Callable[[Any], Any]] = {
        "overview": scenes.overview,
        "trend": lambda frame: scenes.trend(frame, 96),
        "queue": lambda frame: scenes.queue_page(frame, JobQuery(order="order", limit=100)),
        "story of a job": lambda frame: scenes.story(frame, 100),
        "network": wires.network,
    }
    for name, answer in asked.items():
        times = []
        for share in range(1, 2 * ROUNDS):
            began = time.perf_counter()
            answer(film.at(film.first + (film.last - film.first) * share / (2 * ROUNDS)))
            times.append(1e3 * (time.perf_counter() - began))
        print(f"recorded run of {JOBS:,} jobs, {name:15} {statistics.median(times):5.1f} ms")


def main() -> None:
    """Measure and print."""
    recorded()
    with serving("--cluster", "1x2") as (link, client), chromium() as browser:
        client.set_node("n000", "drain")
        client.submit_spec({"name": "sweep", "run": "true", "array": f"0-{JOBS - 1}"})
        answers: dict[str, list[float]] = {}
        for path in ("/v1/overview", "/v1/queue", "/v1/queue?offset=5000&sort=name", "/v1/queue?text=nothing"):
            for _ in range(ROUNDS):
                began = time.perf_counter()
                client.transport.call("GET", path)
                answers.setdefault(path, []).append(1e3 * (time.perf_counter() - began))
        opened, painted, frames = [], [], list[float]()
        for _ in range(ROUNDS):
            page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            page.goto(link())
            page.wait_for_selector(".gpu")
            opened.append(page.evaluate(FIRST))
            painted.append(page.evaluate(PAINT))
            frames += page.evaluate(SCROLL)
            page.context.close()
    for path, times in answers.items():
        print(f"{path:36} {statistics.median(times):7.1f} ms")
    print(
        f"first contentful paint of the page   {statistics.median(opened):7.1f} ms, worst of {ROUNDS}: {max(opened):.1f}"
    )
    print(
        f"first row of {JOBS:,} jobs painted    {statistics.median(painted):7.1f} ms, worst of {ROUNDS}: {max(painted):.1f}"
    )
    late = sorted(frames)[int(0.99 * len(frames))]
    print(
        f"frames while scrolling all of it     {statistics.median(frames):7.1f} ms, 99 % within {late:.1f}, worst {max(frames):.1f}"
    )


if __name__ == "__main__":
    main()
