"""The dashboard over a real manager with real jobs: watched, preempted, cancelled; hostile names, other tokens, a lost connection."""

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error
from tests.unit.users.machine import ROOT_ONLY, certificate, squatter
from tests.waiting import PATIENCE_S, wait_for

from headway.client.client import ApiError, Client

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
# Counts to 40 in a file, so that it goes on where it was; a signal ends it at once. The first attempt stays at 20 until then.
COUNT = (
    "n=$(cat {file} 2>/dev/null || echo 0); while [ $n -lt 40 ]; do sleep 0.1; "
    "if [ $HEADWAY_ATTEMPT = 1 ] && [ $n = 20 ]; then continue; fi; "
    "n=$((n+1)); echo $n > {file}; echo step $n; done"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, serving: Any) -> Any:
    """Two GPUs; after one GPU-second a job makes room for new ones."""
    with serving(tmp_path_factory.mktemp("data"), "--cluster", "1x2", "--policy", "tiresias-l?threshold=1") as found:
        yield found


def job(name: str, run: str, gpus: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "run": run,
        "resources": {"accelerators": gpus},
        "preemptible": True,
        "preemption": {"grace": "2s", "min_runtime": 0},
        **more,
    }


def submit(site: Any, *given: Any, **more: Any) -> int:
    with site.client() as client:
        return client.submit_spec(job(*given, **more))[0]


def state(page: Any) -> Any:
    return page.locator(".jobhead .state")


def test_a_job_is_watched_from_submission_to_end(site: Any, opened: Any, tmp_path: Path) -> None:
    page = opened(site)
    long = submit(site, "long", COUNT.format(file=tmp_path / "n"))
    # On the first screen, without a reload.
    cell = page.locator(f".gpu[data-job='{long}']")
    cell.first.wait_for()
    assert cell.count() == 2
    cell.first.hover()
    page.get_by_text(re.compile(rf"job {long} long")).first.wait_for()
    cell.first.click()
    page.wait_for_url(f"**#/job/{long}")
    page.locator(".state[data-state=running]").wait_for()
    page.locator(".log", has_text="step 5").wait_for()
    short = submit(site, "short", "sleep 1", preemptible=False)
    page.locator(".timeline title", has_text="preempted").first.wait_for(state="attached")
    page.locator(".state[data-state=completed]").wait_for()
    assert page.locator(".timeline .part.c3").count() >= 2, "it ran, was stopped, and ran again"
    page.locator(".log", has_text="step 40").wait_for()  # the log may come after the state
    assert page.locator(".log").inner_text().count("step 40") == 1
    assert "attempt 2" in page.locator(".log").inner_text()
    page.locator(".facts", has_text="1 time").wait_for()
    page.get_by_label("Attempt").select_option("1")
    page.locator(".log", has_text="step 1\n").wait_for()
    assert "step 40" not in page.locator(".log").inner_text(), "the first attempt did not come that far"
    assert page.locator(".shares .stack span").count() >= 1, "the wait receipt"
    with site.client() as client:
        assert client.job(short).state == "COMPLETED"
        assert client.job(long).preemptions == 1
    assert page.mistakes == []


def test_cancel_from_the_page_is_asked_again(site: Any, opened: Any) -> None:
    number = submit(site, "doomed", "sleep 600")
    page = opened(site, f"/job/{number}")
    page.locator(".state[data-state=running]").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="No, leave it").click()
    with site.client() as client:
        assert client.job(number).state == "RUNNING"
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the job").click()
    page.locator(".state[data-state=cancelled]").wait_for()
    assert page.mistakes == []


def test_hold_and_release(site: Any, opened: Any) -> None:
    blocker = submit(site, "blocker", "sleep 600", preemptible=False)
    number = submit(site, "waits", "true")
    page = opened(site, f"/job/{number}")
    page.get_by_role("button", name="Hold").click()
    page.locator(".state[data-state=held]").wait_for()
    page.get_by_text("it is held until it is released").wait_for()
    page.locator(".shares", has_text="until it is released").wait_for()  # the receipt has the words of the command line
    assert page.locator(".shares", has_text="held until").count() == 0
    page.get_by_role("button", name="Release").click()
    page.locator(".state[data-state=pending]").wait_for()
    with site.client() as client:
        client.cancel(blocker, now=True)
    page.locator(".state[data-state=completed]").wait_for()
    page.evaluate("location.hash = '#/'")  # the first screen says it in the words of the table of rows
    for message in ("held", "released", "GPUs given", "COMPLETED"):
        # The name is there only if the page has listed the job before it ended.
        page.locator(".news li", has_text=re.compile(rf"\b{number} (waits )?{message}")).first.wait_for()


def test_whoever_may_only_read_gets_no_buttons(site: Any, opened: Any) -> None:
    from headway.io.accounts import own_account
    from headway.live.http.tokens import Scope, make_token

    number = submit(site, "looked at", "sleep 600")
    reads = make_token(site.data, "reader", own_account()[1], Scope.READ)
    page = opened(site, f"/job/{number}", token=reads)
    page.locator(".state[data-state=running]").wait_for()
    assert page.get_by_role("button", name="Cancel").count() == 0
    with site.client() as client:
        client.cancel(number, now=True)


def test_a_hostile_name_is_text(site: Any, opened: Any) -> None:
    blocker = submit(site, "blocker", "sleep 600", preemptible=False)
    number = submit(site, HOSTILE, f"echo '{HOSTILE}'", queue=HOSTILE)
    page = opened(site)
    page.locator("#waiting a", has_text="<script>alert(1)").wait_for()
    page.evaluate("location.hash = '#/queue'")
    page.locator(".vrow a", has_text=HOSTILE).wait_for()
    page.evaluate(f"location.hash = '#/job/{number}'")
    page.locator("h1", has_text=HOSTILE).wait_for()
    with site.client() as client:
        client.cancel(blocker, now=True)
    page.locator(".log", has_text=HOSTILE).wait_for()
    assert page.locator("main script, main img").count() == 0
    assert page.mistakes == [], "nothing of it was run"


def test_the_page_has_a_strict_policy_and_no_data(site: Any) -> None:
    import urllib.request

    with urllib.request.urlopen(site.url) as answer:
        policy, text = answer.headers["Content-Security-Policy"], answer.read().decode()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in re.sub(r"http://www\.w3\.org\S*", "", text), "everything comes from here"


def test_a_link_signs_in_once_and_no_token_is_asked_for(site: Any, browser: Any, opened: Any) -> None:
    """Nothing secret stays in the address, and the page has no token."""
    link = site.link()
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE_S * 1000)
        page = context.new_page()
        page.goto(site.url)
        page.get_by_text("headway dashboard").wait_for()
        assert page.locator("input").count() == 0, "on plain http nobody is asked for a token"
        page.goto(link)
        page.locator("#connection[data-state=live]").wait_for()
        assert page.url == link.partition("#")[0] + "#/"
        page.reload()
        page.locator("#connection[data-state=live]").wait_for()
        kept = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
        assert site.token not in kept
        assert link.partition("#code=")[2] not in kept
        session = page.evaluate("sessionStorage.getItem('headway-session')")
        assert knows(site, session)
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="Sign in").wait_for()
        assert page.evaluate("sessionStorage.length") == 0
        wait_for(lambda: not knows(site, session))
        page.goto(link)
        page.get_by_role("alert").get_by_text("was used").wait_for()


def knows(site: Any, session: str) -> bool:
    """Whether the manager knows a session."""
    try:
        return bool(Client(site.url, session).status())
    except ApiError:
        return False


def test_a_session_ends_with_its_token(site: Any, opened: Any) -> None:
    from headway.io.accounts import own_account
    from headway.live.http.tokens import Scope, make_token, revoke_token

    page = opened(site, token=make_token(site.data, "visitor", own_account()[1], Scope.READ))
    page.get_by_text(f"{own_account()[1]} (read)").wait_for()
    revoke_token(site.data, "visitor")
    page.get_by_role("alert").get_by_text("the session has ended").wait_for()
    page.get_by_text("headway dashboard").wait_for()


def test_under_a_name_nobody_is_signed_in(site: Any, browser: Any) -> None:
    """`localhost` is also ::1, where another user may listen while the manager runs."""
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE_S * 1000)
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url + str(request.post_data)))
        page.goto(site.link().replace("127.0.0.1", "localhost"))
        page.get_by_role("alert").get_by_text("as it was printed").wait_for()
        assert [each for each in asked if "/v1/" in each] == []


def test_what_would_have_been_under_another_policy(site: Any, opened: Any) -> None:
    page = opened(site, "/whatif")
    page.get_by_label("under").select_option("fifo")
    page.get_by_role("button", name="Replay").click()
    page.locator(".answer svg path.line").nth(2).wait_for()
    page.get_by_text("Under fifo the mean completion time would have been").wait_for()
    assert page.mistakes == []


def test_the_map_is_walked_with_the_keyboard(site: Any, opened: Any) -> None:
    number = submit(site, "by keyboard", "sleep 600", gpus=1)
    page = opened(site)
    cell = page.locator(f".gpu[data-job='{number}']")
    cell.wait_for()
    page.locator(".gpu[tabindex='0']").focus()
    for _ in range(2):
        if page.locator(":focus").get_attribute("data-job") == str(number):
            break
        page.keyboard.press("ArrowRight")
    page.get_by_text(re.compile(rf"job {number} by keyboard")).first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**#/job/{number}")
    with site.client() as client:
        client.cancel(number, now=True)


def test_a_lost_connection_recovers_by_itself(site: Any, opened: Any) -> None:
    page = opened(site)
    page.context.set_offline(True)
    page.locator("#connection[data-state=lost]").wait_for()
    page.context.set_offline(False)
    number = submit(site, "after", "sleep 600")
    page.locator("#connection[data-state=live]").wait_for()
    page.locator(f".gpu[data-job='{number}']").first.wait_for()
    with site.client() as client:
        client.cancel(number, now=True)
    page.locator(".gpu[data-state=free]").first.wait_for()
    assert page.mistakes == []


def test_a_page_that_could_not_be_loaded_is_loaded_again(site: Any, browser: Any) -> None:
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE_S * 1000)
        page = context.new_page()
        page.route("**/pages/overview.js", lambda route: route.abort())
        page.goto(site.link())
        page.get_by_text("This page could not be loaded.").wait_for()
        page.unroute("**/pages/overview.js")
        submit(site, "heard of", "true")
        page.locator(".gpu").first.wait_for()


def test_the_next_manager_asks_to_sign_in_again(site: Any, opened: Any) -> None:
    page = opened(site)
    site.stop()
    page.locator("#connection[data-state=lost]").wait_for()
    site.start()
    page.get_by_role("alert").get_by_text("the session has ended").wait_for()
    page.goto(site.link())
    page.locator("#connection[data-state=live]").wait_for()
    assert page.mistakes == []


@ROOT_ONLY
def test_an_open_tab_gives_a_squatter_nothing_that_works(site: Any, opened: Any, tmp_path: Path) -> None:
    page, heard = opened(site), tmp_path / "heard"
    unused = site.link()
    site.kill()
    page.locator("#connection[data-state=lost]").wait_for()
    with squatter(heard, site.port):
        wait_for(lambda: b"Authorization: Bearer " in heard.read_bytes())
        page.goto("about:blank")
        with contextlib.suppress(Error):  # the browser may not take the answer for a page
            page.goto(unused)  # whoever answers can read what is behind the #
        page.goto("about:blank")
    site.start()
    text = heard.read_bytes().decode("latin-1")
    secrets = set(re.findall(r"Bearer (\S+)", text)) | {unused.partition("#code=")[2]}
    assert len(secrets) == 2
    assert site.token not in text
    for secret in secrets:
        with pytest.raises(ApiError, match=r"session has ended|not known"):
            Client(site.url, secret).status()
        with pytest.raises(ApiError, match="not known here"):
            Client(site.url, "").transport.call("POST", "/v1/sign-in", body={"secret": secret})


@ROOT_ONLY
def test_a_browser_uses_nothing_of_a_squatters_with_the_next_manager(site: Any, opened: Any, tmp_path: Path) -> None:
    """The squatter's page may be kept by the browser, or still be open: neither may see the next link."""
    page = opened(site)
    site.kill()
    page.locator("#connection[data-state=lost]").wait_for()
    script = "export const open = (main) => main.append('taken')"
    keep = "Content-Type: text/javascript\r\nCache-Control: max-age=31536000, immutable\r\n"
    with squatter(tmp_path / "heard", site.port, answer=script, headers=keep):
        page.evaluate("location.hash = '#/network'")  # a page of the dashboard is loaded when it is opened
        page.get_by_text("taken").wait_for()
        page.goto(site.url)
        page.evaluate("window.taken = true")
    site.start()
    page.goto(site.link())
    page.locator("#connection[data-state=live]").wait_for()
    assert page.evaluate("window.taken") is None
    page.reload()
    page.locator("#connection[data-state=live]").wait_for()
    page.evaluate("location.hash = '#/network'")
    page.locator("#main :is(h1, h2)").first.wait_for()
    assert page.get_by_text("taken").count() == 0


def test_with_tls_a_token_is_exchanged_for_a_session(tmp_path: Path, serving: Any, browser: Any) -> None:
    good, key = certificate(tmp_path, "here.example", "127.0.0.1")
    tls = ("--tls-cert", str(good), "--tls-key", str(key))
    with (
        serving(tmp_path / "data", "--cluster", "1x1", *tls) as site,
        browser.new_context(ignore_https_errors=True) as context,
    ):
        context.set_default_timeout(PATIENCE_S * 1000)
        page = context.new_page()
        page.goto(site.url)
        page.get_by_label("Token").fill("hw-wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("alert").get_by_text("not known here").wait_for()
        page.get_by_label("Token").fill(site.token)
        page.get_by_role("button", name="Sign in").click()
        page.locator("#connection[data-state=live]").wait_for()
        assert site.token not in page.evaluate("JSON.stringify({...sessionStorage})")


@pytest.mark.parametrize("width", [1280, 390])
def test_signing_in_has_no_serious_barrier(site: Any, browser: Any, barriers: Any, width: int) -> None:
    with browser.new_context(viewport={"width": width, "height": 844}, bypass_csp=True) as context:
        context.set_default_timeout(PATIENCE_S * 1000)
        page = context.new_page()
        page.goto(site.url)
        assert barriers(page, {"/": ".signin h1"}) == []
