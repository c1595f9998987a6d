"""Ten thousand jobs in the queue: only the rows in sight exist, the whole list is reached; and no page has a serious barrier (axe)."""

import re
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


# Counts how often a number of jobs is shown without rows.
COUNT_BARE = """() => {
  window.bare = 0;
  const look = () => {
    const number = document.querySelector("#matching")?.textContent;
    window.bare += Boolean(number && !document.querySelector(".vrow[data-job]"));
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true });
}"""


def test_the_number_of_jobs_comes_with_their_rows(site: Any, opened: Any) -> None:
    page = opened(site)
    page.evaluate(COUNT_BARE)
    page.evaluate("location.hash = '#/queue'")
    page.get_by_text(f"{JOBS:,} jobs").wait_for()
    assert page.evaluate("window.bare") == 0


def test_an_answer_that_comes_after_another_search_is_not_shown(site: Any, opened: Any) -> None:
    page = opened(site, "/queue")
    page.get_by_text(f"{JOBS:,} jobs").wait_for()
    late: list[Any] = []
    old = re.compile(r"/v1/queue\?(?!.*needle)")
    page.route(old, lambda route: late.append(route))
    with page.expect_request(old):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # the page polls
    page.get_by_label("Search").fill("needle")
    page.get_by_text(f"1 of {JOBS:,} job").wait_for()
    page.evaluate("window.first = document.querySelector('.vrow[data-job]')")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # it polls again after the late answer
    for route in late:
        route.continue_()
    page.wait_for_function(
        "() => document.querySelector('.vrow[data-job]') !== window.first"
    )  # the late answer has been handled
    assert numbers(page) == [JOBS]
    assert page.mistakes == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_no_page_has_a_serious_barrier(site: Any, opened: Any, barriers: Any, scheme: str, width: int) -> None:
    page = opened(site, color_scheme=scheme, viewport={"width": width, "height": 844}, bypass_csp=True)
    assert barriers(page, PAGES) == []


PAGES = {
    "/": ".gpu",
    "/queue": ".vrow[data-job]",
    "/job/1": ".timeline svg",
    "/network": "main h1",
    "/whatif": "main h1",
}
