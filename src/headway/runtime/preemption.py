"""When to stop: should_stop() says the same to every rank at the same step, without a message between them.

Ranks of data-parallel training meet in a collective every step, so while rank 0 is in its n-th call no other rank has made more than n.
Only rank 0 looks for the manager's request; it then writes "stop at call n + 1" to a file before it goes on. Every rank reads the file
before its call n + 1 returns, because the collective between the two calls comes after the write. Call should_stop() once per step, on
every rank:

    from headway import runtime

    for step in range(first, total):
        train()
        runtime.report(step, total=total, loss=loss)
        if runtime.should_stop():
            save()
            runtime.checkpointed(step)
            break

should_stop() turns true when the stop itself comes. A job on borrowed GPUs may learn of it before: notice() returns the seconds left.
"""

import json
import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType

from headway.runtime.current_job import CurrentJob, current_job

STOP_AT = "stop_at"
NOTICE = "notice.json"  # written by the manager: when borrowed GPUs are taken back


class _Listener:
    def __init__(self) -> None:
        self.signalled = False
        self.calls = 0
        self.stop_at: int | None = None

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signalled = True


_listener = _Listener()


def listen() -> None:
    """Inside a job: catch the preemption signal, so that it does not end the process unsaved. A handler set by the job stays."""
    job = current_job()
    if job is None or threading.current_thread() is not threading.main_thread():
        return
    number = signal.Signals.__members__.get(job.signal)
    if number is not None and signal.getsignal(number) == signal.SIG_DFL:
        signal.signal(number, _listener.on_signal)


def should_stop() -> bool:
    """Whether to save and leave now: the same answer on all ranks at the same call."""
    job = current_job()
    if job is None:
        return False
    _listener.calls += 1
    if _listener.stop_at is None:
        _listener.stop_at = _agreed(job, _listener.calls)
    return _listener.stop_at is not None and _listener.calls >= _listener.stop_at


def notice() -> float | None:
    """Return the seconds left until the job's borrowed GPUs are taken back, at least 0; None: the job is under no notice.

    A notice may be withdrawn: then this returns None again. Ranks read it one by one, so let rank 0 decide for all of them.
    """
    job = current_job()
    if job is None or job.run is None:
        return None
    try:
        until = float(json.loads((job.run / NOTICE).read_text(encoding="ascii"))["until"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return max(0.0, until - time.time())


def _agreed(job: CurrentJob, call: int) -> int | None:
    """The call at which all ranks stop, once rank 0 has fixed it."""
    if job.writable is None or job.run is None or not os.path.isdir(job.writable):
        return call if _listener.signalled else None  # every rank for itself: there is no shared folder
    if job.rank != 0:
        return _read(job.writable / STOP_AT)
    if not _listener.signalled and not os.path.exists(job.run / "stop.json"):
        return None
    stop_at = call if job.ranks == 1 else call + 1
    if job.ranks > 1:
        job.write(STOP_AT, str(stop_at))
    return stop_at


def _read(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
