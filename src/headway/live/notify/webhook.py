"""A webhook: every change of a job's state is sent to one address of the operator's, in order and at least once, also across restarts.

The journal is what is sent: the number of the last row that arrived is kept in it, so that nothing is lost while the receiver, or the
manager, is down. A receiver that sees a number twice drops the second.
"""

import contextlib
import hashlib
import hmac
import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from headway.core import events
from headway.core.events import NAMES
from headway.errors import BadInput
from headway.io.json_file import shown
from headway.job_state import JobState
from headway.live.errors import JournalFailed
from headway.live.manager.manager import Manager
from headway.live.rows import BLOCKED_KINDS, row_meaning
from headway.live.state.records import JournalRow

PART: Final = "webhook"  # of the manager, as `headway health` names it
SENT: Final = "webhook"  # under which the journal keeps the number of the last row that arrived
TIMEOUT_S: Final = 10.0
FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 60.0
HELD, RELEASED, NOTIFY = NAMES[events.HELD], NAMES[events.RELEASED], NAMES[events.NOTIFY]
NOTIFIED, WITHDRAWN = "Notified", "NoticeWithdrawn"


def state_of(row: JournalRow) -> str:
    """Return the state of a job after this row; empty if the row is not sent. Only running jobs get a notice."""
    if row.kind == NOTIFY:
        return JobState.RUNNING.name
    state = row_meaning(row.kind, row.data).state
    return "" if state is None else state.name


def notice_in(row: JournalRow) -> dict[str, Any]:
    """Return what a change says about a notice: `notice_until` (null: withdrawn) and `notice_for`; empty for other rows."""
    if row.kind != NOTIFY:
        return {}
    return {"notice_until": row.data["until"], "notice_for": row.data["team"][0] if "team" in row.data else None}


def event_of(row: JournalRow, state: str) -> str:
    """Return the name of the event; Held or Released also if the job stays blocked for another reason."""
    if row.kind == NOTIFY:
        return NOTIFIED if row.data["until"] is not None else WITHDRAWN
    if row.kind in BLOCKED_KINDS:
        return HELD if state == JobState.HELD.name else RELEASED
    return row.kind


def address(url: str) -> tuple[str, str, int | None, str]:
    """Return scheme, host, port and path of an address; refuse text that is none."""
    wrong = BadInput(f"--webhook {url}: write an address such as https://chat.example.org/hooks/headway")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise BadInput(f"--webhook {shown(url)}: write spaces and other signs as %20 and the like, a name as xn--...")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in {"http", "https"} or not host:
        raise wrong
    if parts.username is not None or parts.password is not None:
        raise BadInput(
            f"--webhook: names and passwords before {host} are not sent: use an address without, and --webhook-secret"
        )
    return parts.scheme, host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


class Webhook:
    """Follows the journal and sends what it says about jobs."""

    def __init__(
        self, manager: Manager, url: str, secret: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.manager, self.to, self.secret, self.clock = manager, address(url), secret, clock
        self._closing, self._after = threading.Event(), 0
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def start(self) -> None:
        """Send changes from now on, or from where the last manager stopped. Changes before the first start are not sent."""
        sent = self.manager.recall(SENT)
        self._after = int(sent) if sent is not None else self._begin()
        self._thread.start()

    def _begin(self) -> int:
        """Return the last row before now, once the journal has every row of which users see the effect."""
        with contextlib.suppress(JournalFailed):
            self.manager.settle()
        after = self.manager.last_event
        self._keep(after)
        return after

    def stop(self) -> None:
        """Stop sending; the next manager sends the rest."""
        self._closing.set()
        self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        pause = FIRST_RETRY_S
        while not self._closing.is_set():
            try:
                self._send_rows(self.manager.next_events(self._after, 1.0))
                self.manager.recovered(PART)
                pause = FIRST_RETRY_S
            except JournalFailed as error:  # the rows are read again
                self.manager.complain(f"the webhook waits for the journal: {error}", PART)
                self._closing.wait(pause)
                pause = min(LONGEST_RETRY_S, 2 * pause)

    def _send_rows(self, rows: Sequence[JournalRow]) -> None:
        """Send what rows say about jobs, until the manager stops, and note the last row that was sent."""
        for row in rows:
            if self._closing.is_set() or (row.job and (state := state_of(row)) and not self._deliver(row, state)):
                return
            self._after = row.seq
        if rows:
            self._keep(self._after)

    def _keep(self, after: int) -> None:
        """Keep the number of the last row that was sent. While the journal cannot be written, rows may be sent twice after a restart."""
        with contextlib.suppress(JournalFailed):
            self.manager.remember(SENT, str(after))

    def _deliver(self, row: JournalRow, state: str) -> bool:
        """Send one change until it has arrived; False: the manager stops."""
        body, pause = json.dumps(self._content(row, state)).encode(), FIRST_RETRY_S
        while why := self._send(body, row):
            self.manager.complain(f"the webhook at {self.to[1]} did not take a change: {why}", PART)
            if self._closing.wait(pause):
                return False
            pause = min(LONGEST_RETRY_S, 2 * pause)
        self.manager.recovered(PART)
        return True

    def _content(self, row: JournalRow, state: str) -> dict[str, Any]:
        job = self.manager.job(row.job)
        about: dict[str, Any] = {}
        if job is not None:
            about = {"name": job.name, "user": job.user, "queue": job.queue, "gpus": job.gpus}
        details = {name: row.data[name] for name in ("exit_code", "message", "why") if row.data.get(name) is not None}
        fixed = {"number": row.seq, "time": row.time, "job_id": row.job, "attempt": row.attempt}
        return {**fixed, "event": event_of(row, state), "state": state, **about, **details, **notice_in(row)}

    def _send(self, body: bytes, row: JournalRow) -> str:
        """Send a change once, and return what went wrong; empty: nothing."""
        scheme, host, port, path = self.to
        headers = {"Content-Type": "application/json", "X-Headway-Delivery": str(row.seq), "User-Agent": "headway"}
        if self.secret:
            signed = hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()
            headers["X-Headway-Signature"] = f"sha256={signed}"
        kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        connection = kind(host, port, timeout=TIMEOUT_S)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            answer.read(1 << 16)
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
        finally:
            connection.close()
        return "" if 200 <= answer.status < 300 else f"it answered with status {answer.status}"
