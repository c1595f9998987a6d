"""Logs: all ranks, also those that come late; through rotations and restarts of the manager; capped; harmless on a terminal."""

import json
import os
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ports import reserve_ports
from tests.waiting import PATIENCE_S, gate, wait_for

from headway.cli.tables.terminal import plain, plain_lines
from headway.client.client import Client
from headway.client.received import Received
from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.io.accounts import own_account
from headway.live.executors.process import log_files
from headway.live.executors.process.executor import ProcessExecutor
from headway.live.executors.process.log_files import LogFile, Pump
from headway.live.http.api import make_api
from headway.live.http.guard import Guard
from headway.live.http.logs import GONE, LogQuery, LogReader, RankLog, parse_resume
from headway.live.http.server.connections import make_server
from headway.live.http.tokens import Tokens
from headway.live.manager.followers import Followers
from headway.live.manager.manager import Manager

pytestmark = pytest.mark.xdist_group("live")


class Restartable:
    """A manager behind a real server on one port, that can be stopped and started again."""

    def __init__(self, data: Path, log_cap_bytes: int = 100_000_000) -> None:
        self.data, self.cap = data, log_cap_bytes
        self.port, self.reserved = reserve_ports()
        self.start()

    def start(self) -> None:
        executor = ProcessExecutor(self.data, poll_s=0.1)
        executor.cap_logs(self.cap)
        self.manager = Manager(self.data, cluster("1x4"), executor=executor)
        self.manager.start()
        self.listening = socket.create_server(("127.0.0.1", self.port))
        (self.data / "url").write_text(f"http://127.0.0.1:{self.port}\n")
        self.server = make_server(
            Guard(make_api(self.manager), Tokens(self.data, own_account()[1]), [f"127.0.0.1:{self.port}"])
        )
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listening]})
        self.thread.start()

    def stop(self, drain: bool = False) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.listening.close()
        self.manager.stop(drain=drain)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Restartable]]:
    made: list[Restartable] = []

    def serve(**given: Any) -> Restartable:
        made.append(Restartable(tmp_path, **given))
        return made[0]

    yield serve
    made[0].stop(drain=True)
    made[0].reserved.close()


def test_following_shows_every_rank(make: Callable[..., Restartable]) -> None:
    """Followed from before the start: at two ranks, the one whose file came second used to be missed every time."""
    served = make()
    with Client(data=served.data) as client:
        for _ in range(5):
            number = client.submit("echo rank $RANK", gpus=4, tasks_per_node="gpu")
            assert sorted(client.logs(number, follow=True)) == [f"[{rank}] rank {rank}" for rank in range(4)]


def test_following_survives_a_restart_without_losing_or_doubling_a_line(
    make: Callable[..., Restartable], tmp_path: Path
) -> None:
    served = make()
    with Client(data=served.data) as client:
        lines = "for i in $(seq {}); do echo $RANK.$i; sleep 0.05; done"
        run = f"{lines.format('30')}; {gate(tmp_path / 'go')}; {lines.format('31 60')}"
        number = client.submit(run, gpus=2, tasks_per_node="gpu")
        seen: list[str] = []
        following = threading.Thread(target=lambda: seen.extend(client.logs(number, follow=True)))
        following.start()
        for count in (10, 30):  # both while lines are written
            wait_for(lambda count=count: len(seen) >= count)
            served.stop()
            served.start()
        (tmp_path / "go").touch()
        following.join(PATIENCE_S)
        assert not following.is_alive()
    for rank in range(2):
        assert [each for each in seen if each.startswith(f"[{rank}]")] == [f"[{rank}] {rank}.{i}" for i in range(1, 61)]


def test_the_places_of_thousands_of_ranks_are_found_again(make: Callable[..., Restartable]) -> None:
    """They are longer than an address may be."""
    received = Received(labelled=True)
    for rank in range(4000):
        part = {"attempt": 1, "rank": rank, "ranks": 4000, "at": 10**9 if rank else len("before\n"), "text": ""}
        assert not list(received.lines(json.dumps(part).encode()))
    served = make()
    with Client(data=served.data) as client:
        number = client.submit("echo before; echo after")
        client.wait(number, PATIENCE_S)
        query = {"format": "json", **received.query}
        answer = client.transport.lines(f"/v1/jobs/{number}/logs", query, received.headers)
        assert [line for part in answer for line in received.lines(part)] == ["after"]


def test_following_from_the_end_misses_nothing_that_is_written_while_the_manager_is_away(
    make: Callable[..., Restartable], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, follows, lines = make(), threading.Event(), Received.lines

    def received(self: Received, part: bytes) -> Iterator[str]:
        yield from lines(self, part)
        follows.set()  # it has been told where the log ends

    with Client(data=served.data) as client:
        number = client.submit(f"echo old; {gate(tmp_path / 'go')}; echo new")
        wait_for(lambda: list(client.logs(number)))
        monkeypatch.setattr(Received, "lines", received)
        seen: list[str] = []
        following = threading.Thread(target=lambda: seen.extend(client.logs(number, follow=True, tail=0)))
        following.start()
        assert follows.wait(PATIENCE_S)
        served.stop()
        (tmp_path / "go").touch()
        wait_for(lambda: "new" in (served.data / f"runs/{number}/1/rank-0.log").read_text())
        served.start()
        following.join(PATIENCE_S)
        assert seen == ["new"]


def test_the_tail_of_every_rank(make: Callable[..., Restartable]) -> None:
    served = make()
    with Client(data=served.data) as client:
        number = client.submit("seq 1000; printf end", gpus=2, tasks_per_node="gpu")
        client.wait(number, PATIENCE_S)
        assert sorted(client.logs(number, tail=2)) == ["[0] 1000", "[0] end", "[1] 1000", "[1] end"]
        assert list(client.logs(number, tail=3, rank=1)) == ["999", "1000", "end"]
        assert list(client.logs(number, tail=0)) == []
        assert len(list(client.logs(number, tail=10_000, rank=0))) == 1001
        assert list(client.logs(number, tail=1, follow=True, rank=0)) == ["end"]


def test_a_log_has_a_cap_and_keeps_its_newest_part(make: Callable[..., Restartable]) -> None:
    served = make(log_cap_bytes=100_000)
    with Client(data=served.data) as client:
        number = client.submit("seq 1000000")  # seven megabytes
        client.wait(number, PATIENCE_S)
        folder = served.data / "runs" / str(number) / "1"
        kept = sum(path.stat().st_size for path in folder.glob("rank-*"))
        assert 40_000 < kept <= 100_000
        lines = list(client.logs(number))
        assert lines[-1] == "1000000"
        assert [int(each) for each in lines[1:]] == list(range(int(lines[1]), 1_000_001))
        assert list(client.logs(number, tail=2)) == ["999999", "1000000"]


def test_jobs_open_their_own_stderr_and_stdout(make: Callable[..., Restartable]) -> None:
    """Also as another user: the log is the manager's, but what the job writes to is its own."""
    served = make()
    user = "nobody" if os.geteuid() == 0 else None
    os.chmod(served.data, 0o711)
    with Client(data=served.data) as client:
        from headway.live.jobfile.spec import job_spec

        spec = job_spec({"run": "echo one > /dev/stderr; echo two > /dev/stdout; echo $PATH", "workdir": "/"})
        number = served.manager.submit(spec, user or "")[0] if user else client.submit(spec.run)
        assert client.wait(number, PATIENCE_S).state == "COMPLETED"
        lines = list(client.logs(number))
        assert lines[:2] == ["one", "two"]
        if user:
            assert "/sbin" not in lines[2]  # not root's
        folder = served.data / "runs" / str(number) / "1"
        for name in ("exit.json", "ranks.json", "shim.json", "launch.json", "rank-0.log"):
            assert (folder / name).stat().st_mode & 0o077 == 0, name


# ---- the pieces


def test_a_reader_follows_through_rotations(tmp_path: Path) -> None:
    log, reader = LogFile(str(tmp_path / "rank-0.log"), 40), RankLog(tmp_path / "rank-0.log")
    read = b""

    def all_of_it() -> bytes:
        found, more = b"", True
        while more:
            part, more = reader.read(False)
            found += part
        return found

    for number in range(30):
        log.write(f"line {number}\n".encode())
        read += all_of_it()
    assert read == b"".join(f"line {number}\n".encode() for number in range(30))
    for number in range(30, 60):  # not looked at for a while
        log.write(f"line {number}\n".encode())
    late = all_of_it()
    assert late.startswith(GONE)
    assert late.endswith(b"line 59\n")
    assert all_of_it() == b""


def test_a_place_is_found_again_after_a_rotation(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "rank-0.log"), 60)
    log.write(b"one\ntwo\nthr")
    first = RankLog(tmp_path / "rank-0.log")
    assert first.read(False) == (b"one\ntwo\n", True)
    log.write(b"ee\n" + b"x" * 20 + b"\nfour\n")
    again = RankLog(tmp_path / "rank-0.log", first.passed_on)
    read, more = b"", True
    while more:
        part, more = again.read(False)
        read += part
    assert read == b"three\n" + b"x" * 20 + b"\nfour\n"
    assert parse_resume("3:0=8,12=0") == (3, {0: 8, 12: 0})


@pytest.mark.parametrize("text", ["", "x", "1", "1:0", "1:0=", "1:0=5-", "-1:0=1", "1:0=1;", "٣:0=1"])
def test_places_that_are_none(text: str) -> None:
    with pytest.raises(BadInput, match="resume: write ATTEMPT:RANK=PLACE") as refused:
        parse_resume(text)
    assert refused.value.fields == {"field": "resume"}


def test_while_the_disk_is_nearly_full_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, free = os.statvfs(tmp_path), [10**12]

    class Disk:
        f_blocks, f_frsize = 10**9, 4096

        @property
        def f_bavail(self) -> int:
            return free[0] // 4096

    assert real.f_blocks
    monkeypatch.setattr(log_files.os, "statvfs", lambda path: Disk())
    monkeypatch.setattr(log_files, "LOOK_BYTES", 1)
    monkeypatch.setattr(log_files, "LOOK_S", 0.0)
    log = LogFile(str(tmp_path / "log"), 10**6)
    log.write(b"before\n")
    free[0] = log_files.FREE_BYTES - 1
    log.write(b"lost\n")
    log.write(b"lost\n")
    free[0] = 10**12
    log.write(b"after\n")
    said = (tmp_path / "log").read_text().splitlines()
    assert said[0] == "before"
    assert re.search("10 bytes are left out here: the disk was nearly full", said[2])
    assert said[3] == "after"


def test_the_pump_ends_though_somebody_holds_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, into = os.pipe()
    pump = Pump([(out, LogFile(str(tmp_path / "log"), 1000))])
    pump.start()
    os.write(into, b"last words\n")
    pump.finish()
    assert not pump.is_alive()
    assert (tmp_path / "log").read_text() == "last words\n"
    os.close(into)


def test_lines_are_put_together_rank_by_rank() -> None:
    received = Received(labelled=True)

    def give(**part: Any) -> list[str]:
        import json

        return list(received.lines(json.dumps({"attempt": 1, "ranks": 2, "at": 9, **part}).encode()))

    assert received.resume is None
    assert give(rank=0, text="a\nb") == ["[0] a"]
    assert give(rank=1, text="c\n", at=2) == ["[1] c"]
    assert received.resume == "1:0=9,1=2"
    assert give(rank=0, text="B\n") == ["[0] bB"]
    assert give(rank=0, text="half \udcc3") == []
    assert give(rank=0, text="\udca9\n") == ["[0] half é"]
    assert give(attempt=2, rank=0, text="x\nunfinished") == ["", "--- attempt 2 ---", "[0] x"]
    assert received.resume == "2:0=9"
    assert list(received.lines(b'{"done": true}')) == ["[0] unfinished"]
    assert received.done


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain\ttext é 中 🙂", "plain\ttext é 中 🙂"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b]0;title\x07", "␛[2J␛]0;title␇"),
        ("10%\r50%\r100%\r", "100%"),
        ("\x9b2J\x7f\x08", "�2J␡␈"),
        ("evil\u202etxt.exe", "evil�txt.exe"),
    ],
)
def test_control_characters_are_shown_not_obeyed(given: str, shown: str) -> None:
    assert plain(given) == shown
    assert plain_lines(f"a\n{given}") == f"a\n{shown}"


RUN = "from headway.cli.main import main; main()"


def on_a_terminal(words: list[str]) -> bytes:
    """What a command prints on a terminal."""
    import pty

    near, far = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", RUN, *words], stdout=far, stderr=far, stdin=far) as done:
        os.close(far)
        found = b""
        while select.select([near], [], [], PATIENCE_S)[0]:
            try:
                part = os.read(near, 65_536)
            except OSError:
                break
            if not part:
                break
            found += part
        done.wait(PATIENCE_S)
    os.close(near)
    return found


def test_logs_and_waiting_are_harmless_on_a_terminal(make: Callable[..., Restartable]) -> None:
    served = make()
    data = ["--data", str(served.data)]
    with Client(data=served.data) as client:
        number = client.submit(["printf", "\\033]0;owned\\007\\033[2Jtext\\n"])
        client.wait(number, PATIENCE_S)
        shown = on_a_terminal(["logs", str(number), *data])
        assert b"\x1b" not in shown
        assert "␛]0;owned␇␛[2Jtext".encode() in shown
        assert next(client.logs(number)).startswith("\x1b]0;")  # programs get what was written
    waited = on_a_terminal(["submit", "--wait", *data, "--workdir", "/no\x1b]0;owned\x07where", "--", "true"])
    assert b"\x1b]0;" not in waited
    assert b"owned" in waited


class Slowly:
    """A manager whose job's second rank comes late, and then ends."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.followers = folder, 0, Followers(self.log_files)
        (folder / "rank-0.log").write_text("zero\n")

    def job(self, number: int) -> Any:
        from types import SimpleNamespace

        self.asked += 1
        if self.asked == 3:
            (self.folder / "rank-1.log").write_text("one\n")
        return SimpleNamespace(attempt=1, state="COMPLETED" if self.asked > 3 else "RUNNING")

    def log_files(self, number: int, attempt: int) -> list[Path]:
        return [path for path in (self.folder / "rank-0.log", self.folder / "rank-1.log") if path.exists()]


def test_a_rank_whose_file_comes_later_is_shown(tmp_path: Path) -> None:
    import asyncio

    async def read() -> list[tuple[int, bytes]]:
        reader = LogReader(Slowly(tmp_path), 1, LogQuery(follow=True))  # type: ignore[arg-type]
        return [(part.rank, part.text) async for part in reader.parts()]

    assert asyncio.run(read()) == [(0, b"zero\n"), (1, b"one\n")]


def test_names_of_jobs_are_harmless_on_a_terminal(make: Callable[..., Restartable]) -> None:
    """In every command that shows them."""
    served = make()
    data = ["--data", str(served.data)]
    with Client(data=served.data) as client:
        hostile = "name\x1b]0;owned\x07\x1b[2J"
        number = client.submit(
            ["sleep", "600"], name=hostile, queue=hostile, envs={"X": hostile}, preemption={"grace": 0}
        )
        client.submit(["sh", "-c", hostile], name=hostile, gpus=4)
        for words in (["queue", "--all"], ["show", str(number)], ["history"], ["explain", "2"], ["top", "--once"]):
            shown = on_a_terminal([*words, *data])
            assert b"\x1b]0;" not in shown, words
            assert b"\x1b[2J" not in shown, words
            assert b"Traceback" not in shown
        client.cancel(number)
