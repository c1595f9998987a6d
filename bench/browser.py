"""A browser to measure pages in: the Chromium or Chrome that is installed, told what to do through a pipe (its DevTools protocol).

Nothing is fetched and nothing listens on a port. `python -m bench.browser page.html pictures/` takes pictures of a whole page, wide and
narrow, light and dark.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from headway.report.png import FLAGS, browser

# What the protocol's pipe ends a message with.
END = b"\0"
WIDTHS, SCHEMES = (1280, 800), ("light", "dark")
HEIGHT = 900
# A browser that is told to close has ended after so long, or is made to.
END_S = 10.0


class Page:
    """One tab: `call` sends a command of the protocol and returns its answer, `value` evaluates JavaScript."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands, self._answers, self._sent, self._rest = commands, answers, 0, b""
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events in between are passed over."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        self._commands.write(json.dumps(message).encode() + END)
        self._commands.flush()
        while (answer := self._next()).get("id") != self._sent:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while END not in self._rest:
            more = os.read(self._answers.fileno(), 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self._rest += more
        first, _, self._rest = self._rest.partition(END)
        return dict(json.loads(first))

    def value(self, script: str) -> Any:
        """What a script gives, a promise included."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:500])
        return found["result"].get("value")

    def screen(self, width: int, height: int, scheme: str = "light") -> None:
        """The size of the window, and the reader's choice of light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path, top: int, width: int, height: int) -> None:
        """A part of the page as PNG."""
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def opened() -> Iterator[Page]:
    """A fresh browser with an empty profile; it ends with the block."""
    (to_read, commands), (answers, to_write) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="headway-browser-") as folder:
        flags = (*FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder}/profile")
        # The browser reads commands from file 3 and writes answers to file 4.
        moved = f'exec 3<&{to_read} 4>&{to_write}; exec "$0" "$@"'
        running = subprocess.Popen(
            ["bash", "-c", moved, browser(), *flags, "about:blank"],
            pass_fds=(to_read, to_write),
            env={**os.environ, "HOME": folder},
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        try:
            with open(commands, "wb") as sent, open(answers, "rb") as got:
                page = Page(sent, got)
                yield page
                page.call("Browser.close")
        finally:
            try:
                running.wait(END_S)
            except subprocess.TimeoutExpired:
                running.terminate()
                running.wait()


def pictures() -> None:
    """Pictures of a page, drawn to its end, at each width and in light and dark."""
    page_file, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with opened() as page:
        for width in WIDTHS:
            for scheme in SCHEMES:
                page.screen(width, HEIGHT, scheme)
                page.call("Page.navigate", url=page_file.as_uri())
                page.value(DRAWN)
                length = page.value("document.documentElement.scrollHeight")
                for part, top in enumerate(range(0, length, 2 * HEIGHT)):
                    name = f"{page_file.stem}-{width}-{scheme}-{part}.png"
                    page.picture(folder / name, top, width, min(2 * HEIGHT, length - top))
                    print(folder / name)


# Until the page is read, then everything as for print.
DRAWN = """new Promise(done => {
  const look = () => {
    if (document.readyState !== 'complete') { setTimeout(look, 5); return; }
    window.dispatchEvent(new Event('beforeprint'));
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
  };
  look();
})"""


if __name__ == "__main__":
    pictures()
