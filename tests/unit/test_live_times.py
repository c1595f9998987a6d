"""A job is charged for the time that it ran, however late the manager learns of it; and it learns of it soon, however much else happens."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.live_manager import ME, opened
from tests.waiting import PATIENCE_S, gate, wait_for

from headway.live.executors import ENDED, Launch, Stamp
from headway.live.executors.process.executor import ProcessExecutor
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.clock import Clock

pytestmark = pytest.mark.xdist_group("live")


def test_a_job_that_ends_while_the_manager_is_down_is_charged_for_what_it_ran(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    job = manager.submit(JobSpec(run=gate(tmp_path / "go"), resources={"accelerators": 2}), ME)[0]  # type: ignore[arg-type]
    wait_for(lambda: manager.counts()["RUNNING"])
    manager.stop()
    (tmp_path / "go").touch()
    wait_for((tmp_path / "runs/1/1/exit.json").exists)
    again = opened(tmp_path)
    opened_at = again.events(0)[-1].time
    wait_for(lambda: again.counts()["COMPLETED"])
    view = again.job(job)
    again.stop()
    assert view is not None
    assert view.started_at is not None
    assert view.ended_at is not None
    assert view.started_at < view.ended_at < opened_at
    assert view.service_gpu_s == pytest.approx(2 * (view.ended_at - view.started_at), abs=0.01)
    row = again._state.tables.jobs[again._state.jobs[job].row]
    assert float(row["total"]) == pytest.approx(float(row["service"]))


STOPPED = """
import os, sys, time
from pathlib import Path
from headway.cluster.named import cluster
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.manager import Manager

manager = Manager(Path(sys.argv[1]), cluster("1x2"), "fifo")
manager.start()
job = manager.submit(JobSpec(run=sys.argv[3]), sys.argv[2])[0]
while (job, 1) not in manager._executor._watched:  # a stopped manager cannot hand the job to the starter: wait until it has
    pass
print("started", flush=True)
while manager.counts()["COMPLETED"] < 1:
    time.sleep(0.01)
print(manager.job(job).service_gpu_s, flush=True)
manager.stop()
"""


def test_a_manager_that_was_stopped_by_a_signal_charges_what_the_job_ran(tmp_path: Path) -> None:
    """It neither saw the job start nor end: it was charged nothing, or the time until the manager went on."""
    command = [sys.executable, "-c", STOPPED, str(tmp_path), ME, gate(tmp_path / "go")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGSTOP)
    began, ended = (tmp_path / "runs/1/1" / name for name in ("ranks.json", "exit.json"))
    wait_for(began.exists)
    (tmp_path / "go").touch()
    wait_for(ended.exists)
    began_s, ended_s = (json.loads(path.read_text())["at"]["monotonic"] for path in (began, ended))
    wait_for(lambda: time.monotonic() > ended_s + 0.5)  # time for which the job is not charged
    process.send_signal(signal.SIGCONT)
    charged = float(process.stdout.readline())
    assert process.wait(PATIENCE_S) == 0
    assert charged == pytest.approx(ended_s - began_s, abs=0.1)


def test_times_of_another_boot_are_understood() -> None:
    clock = Clock(1000.0, "now", (("before", 500.0),))
    assert clock.when(Stamp("now", 5.0, 0.0)) == 1005.0
    assert clock.when(Stamp("before", 5.0, 0.0)) == 505.0
    assert clock.when(Stamp("long ago", 5.0, 77.0)) == 77.0


def test_a_lost_attempt_is_noticed_and_progress_is_seen_while_others_call_all_the_time(tmp_path: Path) -> None:
    """Files were looked at only when no shim had called for half a second: with short jobs, never."""
    executor = ProcessExecutor(tmp_path, poll_s=0.2)
    executor.open(lambda: None)
    spec = JobSpec(
        run="echo '{\"step\": 1}' > $HEADWAY_RUN/own/new; mv $HEADWAY_RUN/own/new $HEADWAY_RUN/own/report.json; sleep 600"
    )
    executor.start(Launch(1, 1, ME, spec, (0,), ("n000",)))
    wait_for(lambda: (tmp_path / "runs/1/1/own/report.json").exists())
    over = threading.Event()

    def chatter() -> None:
        handle = os.open(executor.fifo, os.O_WRONLY)
        while not over.wait(0.01):
            os.write(handle, b"7 1 ended\n")
        os.close(handle)

    thread = threading.Thread(target=chatter)
    thread.start()
    heard = []

    def said(what: str) -> bool:
        heard.extend(executor.reports())
        return any(report.what == what for report in heard)

    try:
        wait_for(lambda: said("progressed"))
        shim = json.loads((tmp_path / "runs/1/1/shim.json").read_text())
        os.kill(shim["pid"], signal.SIGKILL)
        wait_for(lambda: said(ENDED))
        assert heard[-1].lost
    finally:
        over.set()
        thread.join()
        executor.close()
