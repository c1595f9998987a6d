"""`headway simulate --web`: a finished run in the same page, played, paused and dragged through."""

import re
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.e2e.web.conftest import HEADWAY
from tests.waiting import PATIENCE_S, wait_for


@pytest.fixture(scope="module")
def run() -> Iterator[Any]:
    """A run of sixty jobs, served until the tests are done."""
    words = [
        "simulate",
        "synthetic:tiresias-480?jobs=60",
        "--cluster",
        "8x4",
        "--policy",
        "tiresias-l",
        "--web",
    ]
    process = subprocess.Popen([*HEADWAY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = next(match for line in process.stderr if (match := re.search(r"http://\S+/\?\w+#session=\S+", line)))
        yield SimpleNamespace(link=lambda token: found[0], process=process)
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert "mean JCT" in out, "the summary is printed as always"


def drag(page: Any, share: float) -> None:
    page.locator("#time").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')) }", 10000 * share
    )


def completed(page: Any) -> int:
    return int(re.search(r"\d+", page.locator(".tile", has_text="Completed").locator("b").inner_text())[0])


def test_a_run_is_dragged_through(run: Any, opened: Any) -> None:
    page = opened(run)
    page.get_by_text("recorded run").wait_for()
    assert completed(page) == 0
    drag(page, 0.5)
    page.locator(".gpu[data-state=running]").first.wait_for()
    page.wait_for_function("() => !document.querySelector('.tiles').textContent.includes('Completed0 ')")
    half = completed(page)
    drag(page, 1.0)
    page.locator(".tile", has_text="60 jobs").wait_for()
    assert 0 < half < 60
    drag(page, 0.5)
    page.locator(".tile", has_text=f"{half} jobs").first.wait_for()
    assert page.get_by_role("button", name="Cancel").count() == 0
    assert page.mistakes == []


def test_a_run_is_played_and_paused(run: Any, opened: Any) -> None:
    page = opened(run)
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => Number(document.getElementById('time').value) > 60")
    page.get_by_role("button", name="Pause").click()

    def stands() -> bool:  # but for what was under way when it was paused
        before = page.locator("#time").input_value()
        page.wait_for_timeout(600)
        return page.locator("#time").input_value() == before

    wait_for(stands)
    page.locator(".gpu[data-state=running]").first.click()
    page.locator(".timeline svg").wait_for()
    page.get_by_role("link", name="Queue").click()
    page.locator(".vrow[data-job]").first.wait_for()
    page.get_by_role("link", name="Network").click()
    page.get_by_text("are not known here").wait_for()
    assert page.mistakes == []


def test_a_time_chosen_while_the_page_loads_is_shown(run: Any, browser: Any) -> None:
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE_S * 1000)
        page, held = context.new_page(), list[Any]()
        page.route("**/v1/trend*", lambda route: route.continue_() if held else held.append(route))
        with page.expect_request("**/v1/trend*"):
            page.goto(run.link(None))
        wait_for(lambda: page.wait_for_timeout(20) or held)  # lets Playwright call the route's handler
        drag(page, 0.5)
        held[0].continue_()
        page.wait_for_function("() => /Completed[1-9]/.test(document.querySelector('.tiles')?.textContent)")


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1280), ("light", 390)])
def test_a_busy_cluster_has_no_serious_barrier(run: Any, opened: Any, barriers: Any, scheme: str, width: int) -> None:
    page = opened(run, color_scheme=scheme, viewport={"width": width, "height": 844}, bypass_csp=True)
    drag(page, 0.5)
    pages = {
        "/": ".gpu[data-state=running]",
        "/queue": ".vrow[data-job]",
        "/job/5": ".timeline svg",
        "/network": "text=are not known here",
    }
    assert barriers(page, pages) == []
