"""How soon the report of a large trace is there in a browser. Run: python -m bench.report [report.html]

Without a file, the report is made here: 82,247 jobs of Philly (`$HEADWAY_TRACES/philly_82k.csv.gz`) on 64x8 under five policies, which
takes some minutes. Times are the browser's own, from the start of the navigation: the first text on the screen, the figures that are in
view, and all figures of the page. CPU time of the browser is what a busy machine does not change.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from bench.browser import DRAWN, HEIGHT, Page, opened

TRACES = Path(os.environ.get("HEADWAY_TRACES", Path(__file__).parents[2] / "shared" / "traces"))
TRACE, CLUSTER = "philly_82k.csv.gz", "64x8"
POLICIES = ("fifo", "best-effort", "srtf", "srsf", "tiresias-l")
WIDTH, ROUNDS = 1280, 5
LIMIT_S = 3.0

# Figures near the screen are drawn by themselves: wait until each has its plot.
IN_VIEW = """new Promise(done => {
  const look = () => {
    const seen = [...document.querySelectorAll('.plot')].filter(p => p.getBoundingClientRect().top < window.innerHeight);
    if (document.readyState === 'complete' && seen.every(plot => plot.querySelector('.main-svg')))
      requestAnimationFrame(() => done(performance.now()));
    else setTimeout(look, 5);
  };
  look();
})"""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
PLOTS = "[document.querySelectorAll('.plot .main-svg').length > 0, document.querySelectorAll('.plot').length]"


@contextmanager
def made() -> Iterator[Path]:
    """The report of the large trace; it goes with the block."""
    from headway.sim.api import compare

    with tempfile.TemporaryDirectory(prefix="headway-report-") as folder:
        path = Path(folder, "report.html")
        compare(str(TRACES / TRACE), CLUSTER, POLICIES, keep_journal=True).report(path)
        yield path


def measured(path: Path) -> dict[str, Any]:
    """Seconds to the first text, to the figures in view and to all figures, in a fresh browser."""
    with opened() as page:
        page.screen(WIDTH, HEIGHT)
        page.call("Performance.enable", timeDomain="threadTicks")
        page.call("Page.navigate", url=path.resolve().as_uri())
        found = {"figures in view": page.value(IN_VIEW) / 1000, "all figures": page.value(DRAWN) / 1000}
        found = {"first text": page.value(FIRST_PAINT) / 1000} | found
        drawn, figures = page.value(PLOTS)
        assert drawn
        return found | {"figures": figures, "CPU": task_s(page)}


def task_s(page: Page) -> float:
    """CPU seconds that the page's main thread was at work."""
    told = {metric["name"]: metric["value"] for metric in page.call("Performance.getMetrics")["metrics"]}
    return float(told["TaskDuration"])


def main() -> None:
    """Print the middle of some rounds, each in a browser of its own."""
    given = sys.argv[1:]
    with nullcontext(Path(given[0])) if given else made() as path:
        told(path, given)


def told(path: Path, given: list[str]) -> None:
    """Measure a page and say what was found."""
    print(f"python -m bench.report {' '.join(given)}".rstrip())
    print(f"{path.stat().st_size / 1e6:.1f} MB; load average before: {os.getloadavg()[0]:.1f} (0 is quiet)")
    rounds = [measured(path) for _ in range(ROUNDS)]
    for name in ("first text", "figures in view", "all figures", "CPU"):
        times = [found[name] for found in rounds]
        print(f"{name:16} {median(times):5.2f} s (of {ROUNDS} rounds {min(times):.2f} to {max(times):.2f})")
    late = median(found["all figures"] for found in rounds)
    print(f"{rounds[0]['figures']} figures; {'under' if late < LIMIT_S else 'OVER'} the limit of {LIMIT_S:g} s")


if __name__ == "__main__":
    main()
