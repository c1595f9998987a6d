"""What would have been, for whoever asks over HTTP: the replay runs in a process of its own, so that the manager is not held up."""

import dataclasses
import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from headway.errors import BadInput, HeadwayError
from headway.io.specs import check_named
from headway.live.ask.replay import PastJob, Replay, ran_jobs, replay
from headway.live.errors import WrongState
from headway.policies import TABLE

if TYPE_CHECKING:
    from headway.live.manager import Manager

MOST_JOBS = 20_000
WITHIN_S = 300.0


class Replays:
    """One at a time: it takes a core."""

    def __init__(self, manager: "Manager") -> None:
        self.manager, self._one = manager, threading.Lock()

    def ask(self, policies: list[str], last_s: float) -> Replay:
        """The manager's own policy comes first, to show how far the simulator can be trusted."""
        for policy in policies:
            check_named("policy", policy, TABLE)  # a policy from outside would be code that a caller names
        jobs = self.manager.workload(self.manager.clock() - last_s)
        if len(jobs) > MOST_JOBS:
            raise BadInput(
                f"last_s: {len(jobs):,} jobs ran in that time, and at most {MOST_JOBS:,} are replayed here: ask for less"
            )
        if not any(job.averaged for job in jobs):
            raise BadInput("no job has ended in that time: there is nothing to replay")
        if not self._one.acquire(blocking=False):
            raise WrongState("another replay is being computed: ask again when it is done")
        try:
            return self._run(jobs, [self.manager.policy, *(one for one in policies if one != self.manager.policy)])
        finally:
            self._one.release()

    def _run(self, jobs: list[PastJob], policies: list[str]) -> Replay:
        cluster = self.manager.cluster
        asked = {
            "jobs": [dataclasses.asdict(job) for job in jobs],
            "cluster": [cluster.name, cluster.nodes, cluster.gpus],
            "policies": policies,
            "placement": self.manager.placement,
        }
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        try:
            done = subprocess.run(
                command, input=json.dumps(asked), capture_output=True, text=True, timeout=WITHIN_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HeadwayError(f"the replay could not be computed: {error}") from None
        if done.returncode:
            raise HeadwayError((done.stderr.strip().splitlines() or ["the replay failed"])[-1])
        return TypeAdapter(Replay).validate_json(done.stdout)


def main() -> None:
    """In the process of its own: a question on standard input, the answer on standard output."""
    from headway.cluster.nodes import Cluster

    asked = json.load(sys.stdin)
    name, nodes, gpus = asked["cluster"]
    try:
        found = replay(
            ran_jobs(asked["jobs"]), Cluster(name, tuple(nodes), tuple(gpus)), asked["policies"], asked["placement"]
        )
    except HeadwayError as error:
        sys.exit(str(error))
    json.dump(dataclasses.asdict(found), sys.stdout)
