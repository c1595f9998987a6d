"""Ten thousand jobs in the queue: only the rows in sight exist, the whole list is reached; and no page has a serious barrier (axe)."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

JOBS = 10_000
IN_SIGHT = 120  # rows of a screen and around it


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, serving: Any) -> Any:
    """Nothing starts on the one node, so that all jobs wait; the last has another name."""
    with serving(tmp_path_factory.mktemp("data"), "--cluster", "1x2") as found:
        with found.client() as client:
            client.set_node("n000", "drain")
            client.submit_spec({"name": "sweep", "run": "true", "array": f"0-{JOBS - 2}", "queue": "team-a"})
            client.submit_spec({"name": "needle", "run": "true", "queue": "team-b", "hold": True})
        yield found


def numbers(page: Any) -> list[int]:
    return [int(each) for each in page.locator(".vrow[data-job]").evaluate_all("rows => rows.map(r => r.dataset.job)")]


def test_ten_thousand_jobs_are_listed(site: Any, opened: Any) -> None:
    page = opened(site, "/queue")
    page.get_by_text(f"{JOBS:,} jobs").wait_for()
    first = numbers(page)
    assert first[:3] == [1, 2, 3], "in the policy's order"
    assert len(first) < IN_SIGHT
    page.locator(".vscroll").evaluate("box => { box.scrollTop = box.scrollHeight / 2 }")
    page.locator(f".vrow[data-job='{JOBS // 2}']").wait_for()
    assert page.locator(".vrow").count() < IN_SIGHT
    page.locator(".vscroll").evaluate("box => { box.scrollTop = box.scrollHeight }")
    page.locator(f".vrow[data-job='{JOBS}']").wait_for()
    assert page.mistakes == []


def test_the_queue_is_searched_filtered_and_sorted(site: Any, opened: Any) -> None:
    page = opened(site, "/queue")
    page.get_by_text(f"{JOBS:,} jobs").wait_for()
    page.get_by_label("Search").fill("needle")
    page.get_by_text(f"1 of {JOBS:,} job").wait_for()
    assert numbers(page) == [JOBS]
    page.get_by_label("Search").fill("")
    page.get_by_label("State").select_option("PENDING")
    page.get_by_text(f"{JOBS - 1:,} of {JOBS:,} jobs").wait_for()
    page.get_by_label("State").select_option("")
    page.get_by_label("Queue", exact=True).select_option("team-b")
    page.get_by_text(f"1 of {JOBS:,} job").wait_for()
    page.get_by_label("Queue", exact=True).select_option("")
    page.get_by_role("button", name="job", exact=True).click()
    page.locator(".vrow[aria-rowindex='2']", has_text="needle").wait_for()
    page.get_by_role("columnheader", name="job ▴").get_by_role("button").click()
    page.locator(".vrow[aria-rowindex='2']", has_text="sweep").wait_for()
    page.get_by_label("State").select_option("OVER")
    page.get_by_text("No job matches.").wait_for()
    assert page.mistakes == []


def axe_script() -> str:
    """axe-core as its Python package carries it."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip(
            "SKIPPED: axe-playwright-python is not installed (pip install -e '.[dev]'): barriers are not looked for"
        )
    return next(Path(found.origin).parent.rglob("axe*.js")).read_text("utf-8")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_no_page_has_a_serious_barrier(site: Any, opened: Any, scheme: str, width: int) -> None:
    script = axe_script()
    size = {"width": width, "height": 844}
    page = opened(site, color_scheme=scheme, viewport=size, bypass_csp=True)
    page.evaluate(script)
    for path, sign in PAGES.items():
        page.evaluate("path => { location.hash = path }", f"#{path}")
        page.locator(sign).first.wait_for()
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
        said = [f"{path}: {each['id']}: {each['help']}: {[n['html'] for n in each['nodes'][:3]]}" for each in serious]
        assert said == []
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{path} is {wide} px wide"


PAGES = {
    "/": ".gpu",
    "/queue": ".vrow[data-job]",
    "/job/1": ".timeline svg",
    "/network": "main h1",
    "/whatif": "main h1",
}
