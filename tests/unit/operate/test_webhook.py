"""The webhook: changes of state arrive in order, signed, also those that happened while nobody listened."""

import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from tests.unit.operate.conftest import Served
from tests.waiting import PATIENCE_S, wait_for

from headway.errors import BadInput
from headway.live.errors import JournalDamaged
from headway.live.notify import webhook
from headway.live.notify.webhook import Webhook
from headway.live.state.records import JournalRow

pytestmark = pytest.mark.xdist_group("live")


class Receiver:
    """A server that keeps what it is sent, and refuses as often as it is told to."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.signatures: list[str] = []
        self.refuse = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.refuse -= 1
                self.send_response(503 if outer.refuse >= 0 else 204)
                self.end_headers()
                if outer.refuse < 0:
                    good = hmac.new(b"s3", body, hashlib.sha256).hexdigest()
                    assert self.headers["x-headway-signature"] == f"sha256={good}"
                    outer.got.append(json.loads(body))

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?x=1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def states(self, job: int, last: str) -> list[str]:
        """The states of a job as they arrived, once the last one has."""

        def found() -> list[str]:
            return [each["state"] for each in self.got if each["job_id"] == job]

        wait_for(lambda: last in found(), lambda: self.got)
        return found()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(webhook, "FIRST_RETRY_S", 0.05)
    made = Receiver()
    yield made
    made.server.shutdown()


def test_changes_arrive_in_order_though_the_receiver_fails(serve: Callable[..., Served], receiver: Receiver) -> None:
    served = serve()
    earlier = served.submit()
    append = served.manager._journal.append

    settle, begun = served.manager.settle, threading.Event()

    def slow(rows: list[JournalRow], *given: Any) -> int:  # people see a job's end a moment before the journal has it
        if any(row.kind == "Ended" for row in rows):
            begun.wait(PATIENCE_S)
        return append(rows, *given)

    served.manager._journal.append = slow  # type: ignore[method-assign]
    served.manager.settle = lambda: (begun.set(), settle())  # type: ignore[method-assign,assignment]
    served.until(earlier)
    assert not begun.is_set()
    hook = Webhook(served.manager, receiver.url, "s3")
    hook.start()
    begun.set()
    receiver.refuse = 3
    job = served.submit(run="exit 7", name="fails", queue="q")
    assert receiver.states(job, "FAILED") == ["PENDING", "STARTING", "RUNNING", "FAILED"]
    last = receiver.got[-1]
    assert (last["name"], last["queue"], last["exit_code"], last["attempt"]) == ("fails", "q", 7, 1)
    assert [each["number"] for each in receiver.got] == sorted({each["number"] for each in receiver.got})
    assert not [each for each in receiver.got if each["job_id"] == earlier]  # history is not told
    assert "status 503" in served.manager.health().last_errors[0].message
    hook.stop()


def test_a_hold_is_told_though_the_job_waits_for_another_reason_too(
    serve: Callable[..., Served], receiver: Receiver
) -> None:
    served = serve()
    hook = Webhook(served.manager, receiver.url, "s3")
    hook.start()
    first = served.submit(run="sleep 60")
    job = served.submit(after=[f"any:{first}"])
    served.explained(job, "dependency")
    served.manager.hold(job)
    served.manager.release(job)
    served.manager.hold(job)
    served.manager.cancel(first, at_once=True)
    served.until(first)
    served.manager.release(job)
    ends = ["HELD", "PENDING", "HELD", "PENDING", "STARTING", "RUNNING", "COMPLETED"]
    assert receiver.states(job, "COMPLETED") == ["PENDING", *ends]
    told = [each["event"] for each in receiver.got if each["job_id"] == job]
    assert told[1:5] == ["Held", "Released", "Held", "Released"]
    hook.stop()


def test_the_end_of_a_dependency_changes_no_state(serve: Callable[..., Served], receiver: Receiver) -> None:
    served = serve()
    hook = Webhook(served.manager, receiver.url, "s3")
    hook.start()
    job = served.submit(after=[served.submit()])
    assert receiver.states(job, "COMPLETED") == ["PENDING", "STARTING", "RUNNING", "COMPLETED"]
    hook.stop()


def test_the_manager_is_in_trouble_while_its_webhook_fails(serve: Callable[..., Served], receiver: Receiver) -> None:
    served = serve()
    receiver.refuse = 10**9
    hook = Webhook(served.manager, receiver.url, "s3")
    hook.start()
    job = served.submit()
    served.until(job)
    wait_for(lambda: not served.manager.health().ok)
    assert served.manager.health().trouble == "the webhook fails: the last errors say why"
    assert served.manager.trouble == ""  # jobs are started all the same
    receiver.refuse = 0
    wait_for(lambda: served.manager.health().ok)
    assert receiver.states(job, "COMPLETED")
    hook.stop()


def test_what_happened_while_nobody_sent_is_sent_later(serve: Callable[..., Served], receiver: Receiver) -> None:
    served = serve()
    hook = Webhook(served.manager, receiver.url, "s3")
    hook.start()
    first = served.submit()
    receiver.states(first, "COMPLETED")
    wait_for(lambda: int(served.manager.recall(webhook.SENT) or 0) >= receiver.got[-1]["number"])
    hook.stop()
    missed = served.submit()
    served.until(missed)
    served.manager.stop()
    served = serve()
    again = Webhook(served.manager, receiver.url, "s3")
    again.start()
    assert receiver.states(missed, "COMPLETED") == ["PENDING", "STARTING", "RUNNING", "COMPLETED"]
    assert receiver.states(first, "COMPLETED").count("COMPLETED") == 1
    again.stop()


def test_changes_arrive_after_the_journal_could_not_be_read(serve: Callable[..., Served], receiver: Receiver) -> None:
    """The thread ended, and nothing more was sent."""
    served = serve()
    hook = Webhook(served.manager, receiver.url, "s3")
    unreadable, events = threading.Event(), served.manager.events

    def read(after: int) -> list[JournalRow]:
        if unreadable.is_set():
            raise JournalDamaged("row 3 of table events fails its checksum")
        return events(after)

    served.manager.events = read  # type: ignore[method-assign,assignment]
    unreadable.set()
    hook.start()
    job = served.submit()
    served.until(job)
    wait_for(lambda: not served.manager.health().ok)
    assert "the webhook waits for the journal" in served.manager.health().last_errors[0].message
    unreadable.clear()
    assert receiver.states(job, "COMPLETED") == ["PENDING", "STARTING", "RUNNING", "COMPLETED"]
    wait_for(lambda: served.manager.health().ok)
    hook.stop()


def test_an_address_that_is_none_is_refused(serve: Callable[..., Served]) -> None:
    for wrong in (
        "chat.example.org",
        "ftp://x",
        "http://",
        "http://[::1",
        "http://h/a b",
        "http://h/ä",
        "http://h/a\tb",
        "http://h/\x7f",
    ):
        with pytest.raises(BadInput, match="--webhook"):
            webhook.address(wrong)
