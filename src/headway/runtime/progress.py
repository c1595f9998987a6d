"""How far the job is, told to the manager: by a file in the job's own folder, or over HTTP where that is out of reach.

Rank 0 speaks for all, so every rank may call. The file holds the whole of what is known and is replaced as one; the manager looks at it
now and then and once more when the job ends, so nothing is lost while the manager is down.
"""

import atexit
import contextlib
import json
import os
import time
from typing import Any

from headway.runtime.inside import Inside, inside

EVERY_S = 0.1  # a step of a small model takes less: not every step is written
TIMEOUT_S = 2.0

_known: dict[str, Any] = {}
_written_at = -1e9
_stale = False


def report(step: int, total: int | None = None, loss: float | None = None) -> None:
    """This step is done (of so many, with this loss)."""
    _tell(step == total, step=int(step), total=total, loss=None if loss is None else float(loss))


def checkpointed(step: int) -> None:
    """The state after this step is saved: a preemption loses only what came after."""
    _tell(True, checkpointed=int(step))


def _tell(at_once: bool, **news: Any) -> None:
    global _stale
    here = inside()
    if here is None or here.rank != 0:
        return
    _known.update({name: value for name, value in news.items() if value is not None})
    if not _stale:
        atexit.register(_last_word)
    _stale = True
    if at_once or time.monotonic() - _written_at >= EVERY_S:
        _write(here)


def _last_word() -> None:
    here = inside()
    if here is not None and _stale:
        _write(here)


def _write(here: Inside) -> None:
    """A manager that cannot be told must not end a training: failures are silent."""
    global _written_at, _stale
    _written_at, _stale = time.monotonic(), False
    atexit.unregister(_last_word)
    if here.own is not None and os.path.isdir(here.own):
        aside = here.own / ".report.json"
        with contextlib.suppress(OSError):
            aside.write_text(json.dumps(_known), encoding="utf-8")
            os.rename(aside, here.own / "report.json")
    elif here.api:
        with contextlib.suppress(OSError, ValueError):
            _post(here)


def _post(here: Inside) -> None:
    import urllib.request  # slow to import, and rarely needed

    body = {"attempt": here.attempt, **_known}
    if body.get("loss") is not None and not abs(body["loss"]) < float("inf"):
        del body["loss"]  # JSON has no NaN
    request = urllib.request.Request(
        f"{here.api}/v1/jobs/{here.job}/progress",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {here.token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S):
        pass
