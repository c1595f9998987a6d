"""Cells of a sweep as an array of Slurm jobs, submitted by submitit; the folder must be on a file system that the nodes share.

Each job runs its share of the cells and leaves a file for every one that is finished, so a job that is killed loses the cells it had not
come to and no other. Whether a job has ended is asked of squeue: submitit asks sacct, which knows nothing where Slurm keeps no accounts,
and a killed job would be waited for without end.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from headway.errors import BadInput, HeadwayError
from headway.sim.experiment import Experiment
from headway.sim.sweep import cell as sweep_cell
from headway.sim.sweep.cell import CellOutcome

# A job runs cells for about a minute at a quarter of a second each, so that starting it hardly counts.
CELLS_PER_JOB = 200
# Slurm's default MaxArraySize is 1001.
MOST_JOBS = 1000
POLL_S = 2.0
# Squeue is asked less often than the folder is looked at: the controller serves everybody.
QUEUE_EVERY_S = 6.0
SQUEUE_LIMIT_S = 30.0
GONE = "no longer known"
# States after which a job does not come back (squeue, "JOB STATE CODES").
ENDED = {GONE, "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"}
ENDED |= {"OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"}
UNKNOWN_TO_SLURM = "invalid job id"
# After these there is a result, which may become visible on a shared file system some time later.
WRITTEN = ("COMPLETED", GONE)
GRACE_S = 15.0


def on_slurm(
    cells: list[Experiment], folder: Path, options: dict[str, str], workers: int | None
) -> Iterator[CellOutcome]:
    """Run the cells as one array of `workers` jobs; the outcomes of each job as soon as it ends."""
    pending: dict[Any, list[Experiment]] = {}
    states: dict[str, str] = {}
    ended_at: dict[str, float] = {}
    asked = monotonic()
    try:
        with _interrupted_later():
            pending = submitted(cells, folder, options, workers)
        while pending:
            sleep(POLL_S)
            if monotonic() - asked >= QUEUE_EVERY_S:
                states, asked = states_of([job.job_id for job in pending]), monotonic()
                # A job that was queued again is no longer ended.
                ended_at = {name: ended_at.get(name, asked) for name, state in states.items() if state in ENDED}
            for job in list(pending):
                state = states.get(job.job_id, "")
                grace_s = GRACE_S if state in WRITTEN else 0.0
                late = job.job_id in ended_at and monotonic() - ended_at[job.job_id] >= grace_s
                if late or job.paths.result_pickle.is_file():
                    yield from _outcomes(job, pending.pop(job), folder, state)
    finally:
        for job in pending:  # whoever stops a sweep stops its jobs, as he stops the workers of this machine
            job.cancel(check=False)


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Hold Ctrl-C back until this block is over: jobs that are submitted but not known yet could not be cancelled."""
    came = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def submitted(
    cells: list[Experiment], folder: Path, options: dict[str, str], workers: int | None
) -> dict[Any, list[Experiment]]:
    """Hand the cells to Slurm: the jobs of the array, each with its share."""
    try:
        import submitit
        from submitit.core.utils import FailedJobError
    except ImportError:
        raise HeadwayError("--on slurm needs submitit: pip install submitit") from None
    count = min(workers or -(-len(cells) // CELLS_PER_JOB), len(cells), MOST_JOBS)
    # In turn, so that the slow cells of one policy or trace do not all meet in one job.
    shares = [cells[k::count] for k in range(count)]
    inputs = zip(*((share, folder.resolve(), list(sys.path)) for share in shares), strict=True)
    try:
        executor: Any = submitit.SlurmExecutor(folder=folder.resolve() / "slurm")
        executor.update_parameters(**{"cpus_per_task": 1, "time": 24 * 60, "job_name": "headway-sweep", **options})
        with redirect_stderr(StringIO()):  # what sbatch says is in the error that submitit raises
            jobs = executor.map_array(attempt_all, *inputs)
    except (RuntimeError, ValueError, TypeError, FailedJobError) as error:
        raise BadInput(f"--on slurm: {' '.join(str(error).split())[:300]}") from None
    return dict(zip(jobs, shares, strict=True))


def attempt_all(cells: list[Experiment], folder: Path, path: list[str]) -> list[str | None]:
    """What one job does: its share of the cells, one after the other. A job that was queued again goes on where it stopped."""
    sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
    done = sweep_cell.finished(cells, folder)
    return [None if cell in done else sweep_cell.attempt(cell, folder) for cell in cells]


def states_of(ids: list[str]) -> dict[str, str]:
    """The state of each job in Slurm's words; of none where Slurm does not answer."""
    array = ids[0].partition("_")[0]
    command = ["squeue", "--noheader", "--array", "--states=all", f"--jobs={array}", "--format=%i %T"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SQUEUE_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if done.returncode != 0 and UNKNOWN_TO_SLURM not in done.stderr.lower():
        return {}
    states = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line.strip())
    return {name: states.get(name, GONE).strip() for name in ids}


def _outcomes(job: Any, share: list[Experiment], folder: Path, state: str) -> Iterator[CellOutcome]:
    """What became of the cells of a job that ended: done, refused with a reason, or never reached."""
    done = sweep_cell.finished(share, folder)
    reasons = [f"Slurm job {job.job_id} ended before it ({state.lower()}), see {job.paths.stderr}"] * len(share)
    if job.paths.result_pickle.is_file():
        trouble = job.exception()
        reasons = job.result() if trouble is None else [_last_words(trouble)] * len(share)
    for cell, reason in zip(share, reasons, strict=True):
        yield CellOutcome(cell, None if cell in done else reason)


def _last_words(trouble: Exception) -> str:
    """The line of a job's traceback that says what went wrong."""
    lines = [line for line in str(trouble).splitlines() if line.strip() and not line.startswith(("-", "You can check"))]
    errors = [line for line in lines if "Error" in line.partition(":")[0]]
    return (errors or lines or [type(trouble).__name__])[-1].strip()
