"""headway.Client against a manager that really listens: submissions that run once, streams, waiting, and what it says when refused."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S, wait_for

from headway.client.client import Client
from headway.client.folder import Endpoint, find_manager
from headway.client.transport import ApiError, Transport, Unreachable
from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.io.accounts import own_account
from headway.live.http.api import make_api
from headway.live.http.guard import Guard
from headway.live.http.streams import MOST_STREAMS
from headway.live.http.tokens import Tokens
from headway.live.manager.manager import Manager


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A manager on a port of its own; its data folder."""
    import uvicorn

    data = tmp_path_factory.mktemp("served")
    manager = Manager(data, cluster("1x2"))
    manager.start()
    listening = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    api = Guard(make_api(manager), Tokens(data, own_account()[1]), [host])
    (data / "url").write_text(f"http://{host}\n")
    server = uvicorn.Server(uvicorn.Config(api, lifespan="off", log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield data
    server.should_exit = True
    thread.join()
    manager.stop(drain=True)


@pytest.fixture
def client(served: Path) -> Iterator[Client]:
    with Client(data=served) as found:
        yield found


def test_submit_wait_logs(client: Client) -> None:
    number = client.submit(["echo", "a b"], gpus=2, name="one")
    job = client.wait(number, PATIENCE_S)
    assert (job.state, job.gpus, job.name, job.exit_code) == ("COMPLETED", 2, "one", 0)
    assert list(client.logs(number)) == ["a b"]
    line = client.submit("echo $((1 + 2)); printf end")
    assert list(client.logs(line, follow=True)) == ["3", "end"]


def test_arrays_and_lists(client: Client) -> None:
    numbers = client.submit_all(["true"], array="0-4", name="many")
    assert [client.wait(number, PATIENCE_S).state for number in numbers] == ["COMPLETED"] * 5
    assert [job.job_id for job in client.jobs(name="many")] == numbers
    assert len(client.jobs(name="many", state=["COMPLETED"], limit=2)) == 2
    with pytest.raises(BadInput, match="submit_all"):
        client.submit(["true"], array="0-1")


def test_the_same_key_gives_the_same_job(client: Client) -> None:
    assert client.submit(["true"], key="once") == client.submit(["true"], key="once")


def test_cancel_explain_and_waiting_no_longer(client: Client) -> None:
    number = client.submit(["sleep", "600"], preemption={"grace": 1})
    wait_for(lambda: client.job(number).state == "RUNNING")
    with pytest.raises(TimeoutError, match=f"job {number} has not ended"):
        client.wait(number, 0.3)
    assert client.explain(number)["state"] == "RUNNING"
    client.cancel(number)
    assert client.wait(number, PATIENCE_S).state == "CANCELLED"
    with pytest.raises(ApiError, match="has ended") as refused:
        client.cancel(number)
    assert refused.value.status == 409


def test_events_come_as_they_happen(client: Client) -> None:
    number = client.submit(["sleep", "0.2"])
    kinds = []
    for event in client.events():
        if event.get("job_id") == number:
            kinds.append(event["kind"])
        if kinds and kinds[-1] == "Ended":
            break
    assert [kind for kind in kinds if kind in {"Submitted", "Started", "Ended"}] == ["Submitted", "Started", "Ended"]


def test_streams_that_are_left_are_closed(client: Client) -> None:
    """More streams than may be open at once, one after the other: each gives its place back when its reader goes."""
    client.submit(["true"])

    def event() -> Any:
        try:
            return next(client.events())
        except ApiError:  # those before are not closed yet
            return None

    for _ in range(MOST_STREAMS + 5):
        wait_for(event)
    assert client.status()["counts"]


def test_threads_share_a_client(client: Client) -> None:
    numbers: list[int] = []
    threads = [threading.Thread(target=lambda: numbers.append(client.submit(["true"]))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(numbers)) == 8


def test_an_answer_that_is_lost_does_not_submit_twice(served: Path) -> None:
    """A proxy that passes the first request on and drops its answer: the client asks again with the same key."""
    url = (served / "url").read_text().strip()
    port = int(url.rsplit(":", 1)[1])
    proxy = socket.create_server(("127.0.0.1", 0))
    passed: list[bytes] = []

    def relay() -> None:
        for turn in range(2):
            near, _ = proxy.accept()
            with near, socket.create_connection(("127.0.0.1", port)) as far:
                request = near.recv(65_536)
                while b"\r\n\r\n" not in request or not request.endswith(b"}"):
                    request += near.recv(65_536)
                passed.append(request)
                far.sendall(
                    request.replace(f"127.0.0.1:{proxy.getsockname()[1]}".encode(), f"127.0.0.1:{port}".encode())
                )
                answer = far.recv(65_536)
                while not answer.endswith(b"}"):
                    answer += far.recv(65_536)
                if turn == 1:
                    near.sendall(answer)

    thread = threading.Thread(target=relay)
    thread.start()
    token = (served / "token").read_text().strip()
    with Client(f"http://127.0.0.1:{proxy.getsockname()[1]}", token) as lossy, Client(data=served) as direct:
        before = len(direct.jobs())
        number = lossy.submit(["true"])
        assert len(direct.jobs()) == before + 1
        assert direct.job(number).job_id == number
    thread.join()
    proxy.close()
    assert len(passed) == 2


def test_where_the_manager_is_and_which_token_goes_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:1234\n")
    (tmp_path / "token").write_text("hw-secret\n")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path))
    monkeypatch.delenv("HEADWAY_API", raising=False)
    monkeypatch.delenv("HEADWAY_TOKEN", raising=False)
    own = Endpoint("http://127.0.0.1:1234", "hw-secret", owner=os.geteuid())
    assert find_manager() == own
    assert find_manager("http://elsewhere:1") == Endpoint("http://elsewhere:1")
    monkeypatch.setenv("HEADWAY_API", "http://elsewhere:2")
    assert find_manager() == Endpoint("http://elsewhere:2")
    monkeypatch.setenv("HEADWAY_TOKEN", "other")
    assert find_manager() == Endpoint("http://elsewhere:2", "other")
    assert find_manager(own.url) == Endpoint(own.url, "other")
    assert find_manager(data=tmp_path) == own


def test_addresses_and_tokens_that_cannot_be(tmp_path: Path) -> None:
    for url in ("", "nowhere", "ftp://x", "http://", "http://x:99999"):
        with pytest.raises(BadInput):
            Transport(Endpoint(url, "t"))
    with pytest.raises(BadInput, match="token"):
        Transport(Endpoint("http://127.0.0.1:1", "two\nlines"))
    with pytest.raises(Unreachable, match="no manager answers"):
        Client("http://127.0.0.1:9", "t").jobs()


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://a..b:8642",
        f"http://{'a' * 80}:8642",
        "http://127.0.0.1 x:8642",
        "http://ada:secret@127.0.0.1:8642",
        "http://127.0.0.1:8642?x",
        "http://127.0.0.1:8642/#x",
        "unix:///run/headway",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match=r"not the address of a manager: write http://127\.0\.0\.1:8642") as refusal:
        Client(url, "hw-secret").dashboard()
    assert "secret" not in str(refusal.value)
