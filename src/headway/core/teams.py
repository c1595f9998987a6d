"""What teams use: counted as jobs start, stop, wait and end. Only `record` calls this."""

from typing import Any, Final

from headway.core.compiler.jit import jit
from headway.core.order import before, first_waiting, next_waiting
from headway.core.receipts import class_of
from headway.core.tables.options import Options
from headway.core.tables.state import State
from headway.core.tables.teams import CLUSTER
from headway.job_state import JobState

# Where there is no notice, GPUs are asked back only from jobs that have just started: they are stopped so many seconds later.
LEAST_NOTICE_S: Final = 1.0
MOST_LOOKS: Final = 100  # jobs of a size and queue among which an earlier claim is looked for


@jit
def count_in_teams(state: State, job: Any, sign: int, now: float) -> None:
    """Count a job (sign 1), or count it no longer (-1), in the state it is in: in its team and in all above."""
    t = job.team
    while t >= CLUSTER:
        team = state.teams[t]
        if job.state == JobState.RUNNING or job.state == JobState.STARTING:
            _settle(team, now)
            team.used += sign * job.gpus
            team.running += sign
        elif job.state == JobState.STOPPING:
            _settle(team, now)
            team.leaving += sign * job.gpus
            team.stopping += sign
        elif job.state == JobState.PENDING or job.state == JobState.HELD:
            team.waiting += sign
        t = team.parent


@jit
def _settle(team: Any, now: float) -> None:
    """Bring the GPU-seconds of a team up to now."""
    held, elapsed = team.used + team.leaving, now - team.since
    team.gpu_s += elapsed * held
    team.borrowed_gpu_s += elapsed * max(0, held - team.guarantee)
    team.since = now


@jit
def hand_over_claim(state: State, options: Options, job: Any, now: float) -> int:
    """A claim ends: one of the same size and queue that came before the job, and asks from now on, has its notice. Returns who, or -1."""
    c, looks = class_of(job, options), 0
    j = first_waiting(state, c) if job.claimed < now and state.classes[c].root >= 0 else -1
    while j >= 0 and looks < MOST_LOOKS and before(state.jobs, j, job.row):
        if state.jobs[j].claimed == now:
            state.jobs[j].claimed = min(
                now, max(job.claimed, now + LEAST_NOTICE_S - options.notice)
            )  # it is yet to end
            return int(j)
        j, looks = next_waiting(state, c, j), looks + 1
    return -1


@jit
def set_claim(state: State, job: Any, at: float) -> None:
    """A job asks for GPUs of its team's guarantee back from `at` on; infinity: no longer."""
    state.counts[0].claims += (at < job.claimed) - (at > job.claimed)
    job.claimed = at
