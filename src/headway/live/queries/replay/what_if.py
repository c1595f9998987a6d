"""Replays that a manager is asked for, in a separate process: compiling and simulating must not delay the manager or its journal."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter

from headway.cluster.nodes import Cluster
from headway.errors import BadInput, HeadwayError, wrong_field
from headway.live.errors import Busy, ReplayFailed
from headway.live.queries.replay.replay import PastJob, Replay, replay_workload
from headway.policies.registry import check_policy

MOST_JOBS = 20_000
WITHIN_S = 300.0
# One replay at a time in a manager: each takes a core.
_REPLAYING = threading.Lock()
NICE = 10  # jobs and the manager go first
REFUSED = 3  # exit code of the process if the question cannot be answered; it prints why


def check_policies(policies: Sequence[str]) -> None:
    """Refuse policies from outside: they would be code that a caller names."""
    for policy in policies:
        check_policy(policy)


def what_if(
    jobs: Sequence[PastJob],
    cluster: Cluster,
    policy: str,
    placement: str,
    late: Sequence[tuple[float, float]],
    policies: Sequence[str],
) -> Replay:
    """Replay a manager's workload in another process."""
    if len(jobs) > MOST_JOBS:
        ran = f"{len(jobs):,} jobs ran in that time"
        raise wrong_field("last_s", f"{ran}, and at most {MOST_JOBS:,} are replayed here: ask for less")
    if not any(job.averaged for job in jobs):
        raise BadInput("no job has ended in that time: there is nothing to replay")
    past = {"policy": policy, "placement": placement, "late": late}
    workload = {"jobs": [asdict(job) for job in jobs], "cluster": asdict(cluster), **past}
    return TypeAdapter(Replay).validate_json(ask_apart({"workload": workload, "policies": policies}))


def ask_apart(question: dict[str, Any]) -> str:
    """Return what `answer` prints as JSON in a process of its own."""
    if not _REPLAYING.acquire(blocking=False):
        raise Busy("another replay is being computed: ask again when it is done")
    try:
        command = [sys.executable, "-c", f"from {__name__} import answer; answer()"]
        done = subprocess.run(
            command, input=json.dumps(question), stdout=subprocess.PIPE, text=True, timeout=WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ReplayFailed(f"the replay took more than {WITHIN_S:g} s: ask for a shorter time") from None
    except OSError as error:
        raise ReplayFailed(f"the replay could not be started: {error.strerror}") from None
    finally:
        _REPLAYING.release()
    if done.returncode == REFUSED:
        raise BadInput(done.stdout)
    if done.returncode:
        raise ReplayFailed(f"the replay ended with status {done.returncode}: the messages of the manager say why")
    return done.stdout


def answer() -> None:
    """Answer a question on standard input, on standard output; with exit code REFUSED, the answer is why that is not possible."""
    os.nice(NICE)
    try:
        result = replay_workload(**json.load(sys.stdin))
    except HeadwayError as error:
        print(error, end="")
        sys.exit(REFUSED)
    json.dump(asdict(result), sys.stdout)
