"""When to stop: should_stop() says the same to every rank at the same step, without a message between them.

Ranks of data-parallel training meet in a collective every step, so while rank 0 is in its n-th call no other rank has made more than n.
Rank 0 alone looks for the manager's word; it then writes down "stop at call n + 1" before it goes on. Every rank reads that before its own
call n + 1 returns, because the collective between lies after the writing. Call should_stop() once a step, on every rank.
"""

import contextlib
import os
import signal
import threading
from pathlib import Path
from types import FrameType

from headway.runtime.inside import Inside, inside

STOP_AT = "stop_at"


class _Listener:
    def __init__(self) -> None:
        self.signalled = False
        self.calls = 0
        self.stop_at: int | None = None

    def heard(self, number: int, frame: FrameType | None) -> None:
        self.signalled = True


_listener = _Listener()


def listen() -> None:
    """Inside a job: take the preemption signal, so that it does not end the process unsaved. A handler of the job's own stays."""
    here = inside()
    if here is None or threading.current_thread() is not threading.main_thread():
        return
    number = signal.Signals.__members__.get(here.signal)
    if number is not None and signal.getsignal(number) == signal.SIG_DFL:
        signal.signal(number, _listener.heard)


def should_stop() -> bool:
    """Whether to save and leave now: the same answer on all ranks at the same call."""
    here = inside()
    if here is None:
        return False
    _listener.calls += 1
    if _listener.stop_at is None:
        _listener.stop_at = _agreed(here, _listener.calls)
    return _listener.stop_at is not None and _listener.calls >= _listener.stop_at


def _agreed(here: Inside, call: int) -> int | None:
    """The call at which all ranks stop, once rank 0 has fixed it."""
    if here.own is None or here.run is None or not os.path.isdir(here.own):
        return call if _listener.signalled else None  # each for itself: there is no common ground
    if here.rank != 0:
        return _read(here.own / STOP_AT)
    if not _listener.signalled and not os.path.exists(here.run / "stop.json"):
        return None
    stop_at = call if here.ranks == 1 else call + 1
    if here.ranks > 1:
        aside = here.own / f".{STOP_AT}"
        with contextlib.suppress(OSError):
            aside.write_text(str(stop_at), encoding="ascii")
            os.rename(aside, here.own / STOP_AT)
    return stop_at


def _read(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
