"""Heavy queries in a separate process, so that compiling and simulating delay neither the manager nor its journal."""

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from typing import Any

from headway.errors import HeadwayError
from headway.live.errors import WrongState

WITHIN_S = 300.0
# One of a kind at a time in a manager: each takes a core. Everybody may ask for plans, which must not keep operators from replays.
_ONE: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
NICE = 10  # jobs and the manager go first


def ask_apart(module: str, question: dict[str, Any]) -> str:
    """What `module.answer(question)` prints as JSON, computed elsewhere."""
    one = _ONE[module]
    if not one.acquire(blocking=False):
        raise WrongState("another question of this kind is being computed: ask again when it is done")
    try:
        command = [sys.executable, "-c", f"from {__name__} import answer; answer({module!r})"]
        done = subprocess.run(
            command, input=json.dumps(question), capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HeadwayError(f"this could not be computed: {error}") from None
    finally:
        one.release()
    if done.returncode:
        raise HeadwayError((done.stderr.strip().splitlines() or ["this could not be computed"])[-1])
    return done.stdout


def answer(module: str) -> None:
    """In the process of its own: a question on standard input, the answer on standard output."""
    from importlib import import_module

    os.nice(NICE)
    try:
        result = import_module(module).answer(json.load(sys.stdin))
    except HeadwayError as error:
        sys.exit(str(error))
    json.dump(result, sys.stdout)
