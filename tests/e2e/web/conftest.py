"""A browser, and a manager started by `headway serve` with a person who looks at its page."""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ports import reserve_ports
from tests.waiting import PATIENCE_S, wait_for

from headway.client.client import Client
from headway.client.folder import TOKEN_FILE, URL_FILE

HEADWAY = [sys.executable, "-c", "from headway.cli.main import main; main()"]
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
POLICY = re.compile("Content Security Policy|Trusted ?Types|TrustedHTML")  # the browser refused something of ours


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium, driven by playwright; a loud skip without either. Gone after the file: its event loop runs meanwhile."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="SKIPPED: playwright is not installed (pip install -e '.[dev]')"
    )
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("SKIPPED: no chromium on the PATH: the dashboard is not tested (apt-get install chromium)")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()


class Site:
    """A manager with its page; it can be stopped and started again at the same address."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data, self.options = data, options
        self.port, self.reserved = reserve_ports()
        self.process: subprocess.Popen[bytes] | None = None
        self.url = f"http{'s' if '--tls-cert' in options else ''}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        (self.data / URL_FILE).unlink(missing_ok=True)
        serve = ["serve", "--port", str(self.port), "--data", str(self.data), *self.options]
        env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY")}
        self.process = subprocess.Popen([*HEADWAY, *serve], stdout=subprocess.DEVNULL, env=env)
        process = self.process

        def answers() -> bool:
            assert process.poll() is None, "the manager did not start"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), PATIENCE_S):
                return (self.data / URL_FILE).exists()
            return False

        wait_for(answers)

    def stop(self) -> None:
        """Stop it; its jobs go on."""
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE_S)
            self.process = None

    def kill(self) -> None:
        """End it at once; its jobs go on."""
        assert self.process
        self.process.kill()
        self.process.wait()
        self.process = None

    @property
    def token(self) -> str:
        return (self.data / TOKEN_FILE).read_text().strip()

    def client(self) -> Client:
        return Client(data=self.data)

    def link(self, token: str | None = None) -> str:
        """A link that signs in with a token, or as the owner."""
        with Client(self.url, token, data=self.data) as client:
            return client.dashboard()


@contextlib.contextmanager
def served(data: Path, *options: str) -> Iterator[Site]:
    """A manager for as long as it is needed; nothing is left behind."""
    site = Site(data, *options)
    site.start()
    try:
        yield site
    finally:
        if site.process is None:
            site.start()
        with site.client() as client:
            active = [job.job_id for job in client.jobs() if job.state in ("STARTING", "RUNNING", "STOPPING")]
            for job in active:
                client.cancel(job, now=True)
            for job in active:
                client.wait(job, PATIENCE_S)
        site.stop()
        site.reserved.close()


@pytest.fixture(scope="session")
def serving():
    """`with serving(folder, options...) as site`."""
    return served


@pytest.fixture
def opened(browser):
    """`opened(site, path)`: a new tab that is signed in; whatever goes wrong in it fails the test."""
    contexts: list[Any] = []

    def open_page(site: Any, path: str = "/", token: str | None = None, **given: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **given})
        contexts.append(context)
        context.set_default_timeout(1000 * PATIENCE_S)
        page = context.new_page()
        page.mistakes = []
        page.on("pageerror", lambda error: page.mistakes.append(str(error)))
        page.on("console", lambda said: page.mistakes.append(said.text) if POLICY.search(said.text) else None)
        page.on("dialog", lambda dialog: (page.mistakes.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(site.link(token))
        page.wait_for_selector("#connection[data-state=live]")
        if path != "/":
            page.evaluate("path => { location.hash = path }", f"#{path}")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def barriers():
    """`barriers(page, {path: a sign that it is there})`: what axe finds serious on these pages, and pages that are too wide."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip(
            "SKIPPED: axe-playwright-python is not installed (pip install -e '.[dev]'): barriers are not looked for"
        )
    script = next(Path(found.origin).parent.rglob("axe*.js")).read_text("utf-8")

    def look(page: Any, pages: dict[str, str]) -> list[str]:
        page.evaluate(script)
        said: list[str] = []
        for path, sign in pages.items():
            page.evaluate("path => { location.hash = path }", f"#{path}")
            page.locator(sign).first.wait_for()
            violations = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            serious = [each for each in violations if each["impact"] in ("serious", "critical")]
            said += [f"{path}: {one['id']}: {one['help']}: {[n['html'] for n in one['nodes'][:3]]}" for one in serious]
            wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            said += [f"{path} is {wide} px wide"] if wide > room else []
        return said

    return look
