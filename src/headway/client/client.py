"""The manager from Python: `headway.Client(url, token)`.

Without arguments it finds the manager as the command line does: `HEADWAY_API` and `HEADWAY_TOKEN`, otherwise what `headway serve` left in
the data folder. A submission carries a key, so that one whose answer was lost is sent again and still runs once.
"""

import json
import math
import secrets
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from headway.client.folder import find_manager
from headway.client.job import JobQuery, JobView, job_view
from headway.client.peer import is_loopback
from headway.client.received import Received
from headway.client.transport import ApiError, Transport, Unreachable
from headway.errors import BadInput
from headway.job_state import FINAL_STATES

POLL_S = 0.2
PAGE = 1000
MOST_AT_ONCE = 500  # jobs that one request changes
OPTIONS = {"cancel": "now", "requeue": "hold"}  # what a verb may be told beside its jobs
RESTART_S = 60.0  # how long wait() sits out a manager that does not answer


class Client:
    """A manager, for scripts and notebooks. Threads may share one."""

    def __init__(self, url: str | None = None, token: str | None = None, *, data: Path | None = None) -> None:
        self.transport = Transport(find_manager(url, token, data))
        self.url = self.transport.url

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.transport.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def submit(
        self, command: Sequence[str] | str, *, gpus: int | None = None, key: str | None = None, **fields: Any
    ) -> int:
        """Submit a command (a list of words, or a line for the shell) with the fields of a job file; its number.

        `client.submit(["python", "train.py"], gpus=4, name="resnet", queue="team-a")`
        """
        numbers = self.submit_all(command, gpus=gpus, key=key, **fields)
        if len(numbers) != 1:
            raise BadInput(f"an array gives {len(numbers)} jobs: use submit_all for their numbers")
        return numbers[0]

    def submit_all(
        self, command: Sequence[str] | str, *, gpus: int | None = None, key: str | None = None, **fields: Any
    ) -> list[int]:
        """Submit, and return the numbers of all jobs of the array."""
        what = {"run": command} if isinstance(command, str) else {"command": list(command)}
        if gpus is not None:
            fields["resources"] = {**fields.get("resources", {}), "accelerators": gpus}
        return self.submit_spec({**what, **fields}, key)

    def submit_spec(self, spec: Mapping[str, Any], key: str | None = None) -> list[int]:
        """Submit the content of a job file; the numbers of its jobs."""
        return [int(number) for number in self.send_spec(spec, key)["job_ids"]]

    def send_spec(self, spec: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        """Submit the content of a job file; the manager's whole answer: `job_ids`, and `notes` on what is not enforced."""
        headers = {"Idempotency-Key": uuid.uuid4().hex if key is None else key}
        return self.transport.call("POST", "/v1/jobs", body=dict(spec), headers=headers, repeat=True)

    def dry_run(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return where and roughly when a job would start, without submitting it."""
        return self.transport.call("POST", "/v1/dry-run", body=dict(spec), repeat=True)

    def job(self, job_id: int) -> JobView:
        """Return one job; raise ApiError with status 404 if there is none that you may see."""
        return job_view(self.transport.call("GET", f"/v1/jobs/{int(job_id)}"))

    def jobs(
        self,
        *,
        user: str | None = None,
        state: str | Iterable[str] | None = None,
        name: str | None = None,
        queue: str | None = None,
        array_id: int | None = None,
        since: float | None = None,
        until: float | None = None,
        newest: bool = False,
        after_id: int = 0,
        to_id: int | None = None,
        limit: int | None = None,
    ) -> list[JobView]:
        """Return the jobs that you may see, by number (or the newest first), filtered; at most `limit`.

        `since` and `until` are seconds since 1970, by submission; `after_id` and `to_id` bound the numbers.
        """
        query = JobQuery(
            user=user,
            states=_states(state),
            name=name or "",
            queue=queue,
            array_id=array_id,
            since=since,
            until=until,
            descending=newest,
            after_id=after_id,
            limit=limit,
        )
        return self.select(query, to_id)

    def select(self, query: JobQuery, to_id: int | None = None) -> list[JobView]:
        """Return the jobs that a query chooses, by number or the newest first, up to the number `to_id`."""
        views: list[JobView] = []
        while query.limit is None or len(views) < query.limit:
            size = PAGE if query.limit is None else min(PAGE, query.limit - len(views))
            page = self.transport.call("GET", "/v1/jobs", query={**query.parameters(), "limit": size})
            views += [job_view(row) for row in page["jobs"] if to_id is None or row["job_id"] <= to_id]
            if page["next_after_id"] is None or (to_id is not None and int(page["next_after_id"]) >= to_id):
                break
            query = replace(query, after_id=int(page["next_after_id"]))
        return views

    def cancel(self, job_id: int, now: bool = False) -> None:
        """Stop a job and take it out of the queue; `now` leaves it no grace to save."""
        self.act(job_id, "cancel", now)

    def act(self, job_id: int, verb: str, option: bool = False) -> JobView:
        """Cancel, hold, release or requeue a job, and return it. Cancel has the option `now`, requeue the option `hold`."""
        query = {OPTIONS[verb]: "true"} if option and verb in OPTIONS else None
        return job_view(self.transport.call("POST", f"/v1/jobs/{int(job_id)}/{verb}", query=query))

    def act_all(self, verb: str, job_ids: Sequence[int], option: bool = False) -> tuple[list[JobView], list[ApiError]]:
        """Apply a verb to many jobs; return the jobs that changed, and the refusals of the others."""
        done: list[JobView] = []
        refused: list[ApiError] = []
        for at in range(0, len(job_ids), MOST_AT_ONCE):
            body: dict[str, Any] = {"verb": verb, "job_ids": list(job_ids[at : at + MOST_AT_ONCE])}
            if option and verb in OPTIONS:
                body[OPTIONS[verb]] = True
            answer = self.transport.call("POST", "/v1/actions", body=body)
            done += [job_view(row) for row in answer["jobs"]]
            refused += [ApiError(int(job["status"]), job["detail"]) for job in answer["refused"]]
        return done, refused

    def history(
        self,
        *,
        user: str | None = None,
        state: str | Iterable[str] | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """Return jobs with their final figures, the newest first, also those that ended long ago; times are seconds since 1970."""
        query = {"user": user, "state": sorted(_states(state)) or None, "since": since, "until": until, "limit": limit}
        return list(self.transport.call("GET", "/v1/history", query=query)["jobs"])

    def health(self) -> dict[str, Any]:
        """Return the health of the manager: times of decisions and commits, depth of the queue, lag of the journal, last errors."""
        return self.transport.call("GET", "/v1/health")

    def explain(self, job_id: int) -> dict[str, Any]:
        """Return why a job waits: reason, numbers, jobs ahead, what would change it, and its receipt."""
        return self.transport.call("GET", f"/v1/jobs/{int(job_id)}/explain")

    def logs(
        self,
        job_id: int,
        *,
        follow: bool = False,
        rank: int | None = None,
        attempt: int | None = None,
        tail: int | None = None,
    ) -> Iterator[str]:
        """Yield the lines that a job wrote; with `follow` as they come, until the job ends, also across restarts of the manager.

        With several ranks each line begins with its rank, such as `[0] `; `tail` gives only the last lines of every rank.
        """
        query = {"follow": str(follow).lower(), "rank": rank, "attempt": attempt, "tail": tail, "format": "json"}
        received, heard = Received(labelled=rank is None), time.monotonic()
        while not received.done:
            try:
                path = f"/v1/jobs/{int(job_id)}/logs"
                for line in self.transport.lines(path, {**query, **received.query}, received.headers):
                    yield from received.lines(line)
                    heard = time.monotonic()
            except Unreachable:
                if not follow or time.monotonic() - heard > RESTART_S:
                    raise
            if not received.done:
                time.sleep(POLL_S)

    def events(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the events of your jobs after number `after`, as they happen, without end."""
        for line in self.transport.lines("/v1/events", {"after": after}):
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))

    def wait(self, job_id: int, timeout_s: float | None = None) -> JobView:
        """Wait until the job has ended, and return it; TimeoutError after `timeout_s`. A restart of the manager is waited out."""
        heard = time.monotonic()
        until = heard + (math.inf if timeout_s is None else timeout_s)
        while True:
            now = time.monotonic()
            try:
                job = self.job(job_id)
                heard = now
                if job.state in FINAL_STATES:
                    return job
            except Unreachable:
                if now - heard > RESTART_S:
                    raise
            if now >= until:
                raise TimeoutError(f"job {job_id} has not ended after {timeout_s:g} s")
            time.sleep(max(0.0, min(POLL_S, until - now)))

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes, with the free GPUs of each."""
        return list(self.transport.call("GET", "/v1/nodes")["nodes"])

    def queues(self) -> list[dict[str, Any]]:
        """Return the queues of teams, with guaranteed and used GPUs; []: there is no queues file."""
        return list(self.transport.call("GET", "/v1/queues")["queues"])

    def set_node(self, node: str, verb: str) -> None:
        """Drain a node (it takes no new job), or resume it."""
        self.transport.call("POST", f"/v1/nodes/{quote(node, safe='')}/{verb}")

    def reservations(self) -> list[dict[str, Any]]:
        """Return the nodes that are kept for queues: nodes, queue, from and to in seconds since 1970."""
        return list(self.transport.call("GET", "/v1/reservations")["reservations"])

    def reserve(self, nodes: Sequence[str], queue: str, begin: float, end: float) -> None:
        """Keep nodes for a queue for a time, in seconds since 1970."""
        asked = {"nodes": list(nodes), "queue": queue, "from": begin, "to": end}
        self.transport.call("POST", "/v1/reservations", body=asked)

    def unreserve(self, node: str) -> None:
        """Keep a node no longer that was reserved while the manager runs."""
        self.transport.call("DELETE", f"/v1/nodes/{quote(node, safe='')}/reservation")

    def status(self) -> dict[str, Any]:
        """Return the manager's policy, its cluster, and the number of jobs in each state."""
        return self.transport.call("GET", "/v1/status")

    def dashboard(self) -> str:
        """Return a link that opens the dashboard, signed in. It works once, within ten minutes."""
        parts = urlsplit(self.url)
        if parts.scheme == "http" and not _is_number(parts.hostname or ""):
            raise BadInput(
                f"{self.url}: a name may be several addresses, and another user may listen on one: "
                f"give --server http://127.0.0.1:{parts.port or 80}"
            )
        return dashboard_link(self.url, f"code={self.transport.call('POST', '/v1/codes')['code']}")

    def workload(self, last_s: float | None = None) -> dict[str, Any]:
        """Return the jobs that ran in the last seconds (or ever), for a replay."""
        return self.transport.call("GET", "/v1/workload", query={"last_s": last_s})


def dashboard_link(url: str, secret: str) -> str:
    """Return a link to the dashboard that carries `code=...` or `session=...` behind the #, which browsers do not send.

    The random query makes the browser load the page from the manager. It cannot show a page that another program on the same port left in
    its cache or in an open tab, and that would read the secret.
    """
    return f"{url}/?{secrets.token_hex(8)}#{secret}"


def _states(state: str | Iterable[str] | None) -> frozenset[str]:
    """Return the names of states, given as one or several."""
    return frozenset([state] if isinstance(state, str) else state or ())


def _is_number(host: str) -> bool:
    """Return whether a host is an address of this machine and not a name."""
    try:
        return is_loopback(host)
    except OSError:
        return False


__all__ = ["ApiError", "Client", "Unreachable"]
