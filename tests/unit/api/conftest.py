"""A real manager behind the real API, in this process: one that runs jobs, and one whose nodes are drained so that nothing starts."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from fastapi.testclient import TestClient
from tests.waiting import wait_for

from headway.cluster.named import cluster
from headway.cluster.queues import Queues
from headway.errors import BadInput
from headway.io.accounts import own_account
from headway.live.executors.common import account
from headway.live.http import tokens as http_tokens
from headway.live.http.api import make_api
from headway.live.http.guard import Guard
from headway.live.http.tokens import Scope, Tokens, job_secret, job_token, make_token, revoke_token
from headway.live.manager.manager import Manager

HOST = "127.0.0.1:8642"
# Users that every Linux machine has: run by root, a manager refuses others.
OWNER, ADA, BOB = own_account()[1], "nobody", "daemon"


@dataclass
class Served:
    """The API with a client for each kind of caller."""

    data: Path
    manager: Manager
    client: TestClient
    tokens: dict[str, str]

    def ask(self, method: str, path: str, who: str = "owner", **given: Any) -> Any:
        headers = (
            {"Authorization": f"Bearer {self.tokens[who]}", **given.pop("headers", {})}
            if who
            else given.pop("headers", {})
        )
        return self.client.request(method, path, headers=headers, **given)

    def submit(self, who: str = "owner", **fields: Any) -> int:
        answer = self.ask("POST", "/v1/jobs", who, json={"command": ["true"], **fields})
        assert answer.status_code == 201, answer.text
        return int(answer.json()["job_id"])

    def job(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/v1/jobs/{number}").json()
        return found

    def until(self, number: int, *states: str) -> dict[str, Any]:
        """Wait until the job is in one of the states."""
        wait_for(lambda: self.job(number)["state"] in states, lambda: f"still {self.job(number)}")
        return self.job(number)

    def job_token(self, number: int, attempt: int = 1) -> str:
        """Return the token of an attempt of this job, which is the caller named `job` from now on."""
        self.tokens["job"] = job_token(job_secret(self.data), number, attempt)
        return self.tokens["job"]


@contextlib.contextmanager
def others_allowed() -> Iterator[None]:
    """Where root does not run the tests, jobs of other users run as whoever does: what the API says about them is the same."""
    if os.geteuid() == 0:
        yield
        return
    with (
        patch.object(http_tokens, "refuse_others", lambda user: None),
        patch.object(account, "refuse_others", lambda user: None),
    ):
        yield


def serve(data: Path, *, drained: bool, queues: Queues | None = None) -> Iterator[Served]:
    with others_allowed():
        yield from served_by(data, drained, queues)


def served_by(data: Path, drained: bool, queues: Queues | None) -> Iterator[Served]:
    manager = Manager(data, cluster("2x2"), "tiresias-l?threshold=1000", queues=queues)
    manager.start()
    try:
        if drained:
            for node in manager.cluster.nodes:
                manager.drain(node)
        owned = Tokens(data, OWNER, attempt_runs=manager.attempt_runs)
        tokens = {"owner": (data / "token").read_text().strip()}
        for name, user, scope in (
            ("ada", ADA, Scope.SUBMIT),
            ("bob", BOB, Scope.SUBMIT),
            ("ada-reads", ADA, Scope.READ),
            ("operator", BOB, Scope.OPERATE),
        ):
            with contextlib.suppress(BadInput):  # a manager before this one made it
                revoke_token(data, name)
            tokens[name] = make_token(data, name, user, scope)
        tokens["wrong"] = tokens["owner"][:-1] + ("A" if tokens["owner"][-1] != "A" else "B")
        with TestClient(
            Guard(make_api(manager), owned, [HOST]), base_url=f"http://{HOST}", raise_server_exceptions=True
        ) as client:
            yield Served(data, manager, client, tokens)
    finally:
        manager.stop(drain=not drained)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A manager that runs jobs."""
    yield from serve(tmp_path_factory.mktemp("live"), drained=False)


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A manager on which nothing starts."""
    yield from serve(tmp_path_factory.mktemp("idle"), drained=True)


@pytest.fixture(scope="module")
def serve_queues() -> Callable[[Path, Queues], contextlib.AbstractContextManager[Served]]:
    """A manager with queues of teams on which nothing starts."""
    return contextlib.contextmanager(lambda data, queues: serve(data, drained=True, queues=queues))


@pytest.fixture(scope="module")
def serve_apart() -> Callable[[], contextlib.AbstractContextManager[Served]]:
    """A manager in a folder that other users may pass through, as a system's data folder is."""

    @contextlib.contextmanager
    def served() -> Iterator[Served]:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o711)
            yield from serve(Path(folder) / "data", drained=False)

    return served
