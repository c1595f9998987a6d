"""Memory of retired jobs: how each ended, and totals. The rest is in the journal's table of finished jobs."""

from collections import Counter
from dataclasses import dataclass, field

from headway.job_state import JobState
from headway.live.state.records import Job


@dataclass(slots=True)
class Past:
    """The retired jobs, a byte each."""

    finals: bytearray = field(default_factory=bytearray)  # by number: how the job ended; 0: not retired
    counts: Counter[str] = field(default_factory=Counter)  # retired jobs by state
    preemptions: int = 0
    arrays: dict[int, int] = field(default_factory=dict)  # tasks of arrays of which every task is retired

    def final_of(self, job_id: int) -> JobState | None:
        """How a retired job ended; None if it is not one."""
        state = self.finals[job_id] if 0 < job_id < len(self.finals) else 0
        return JobState(state) if state else None

    def retire(self, job: Job) -> None:
        """Count a job that has ended among the retired ones."""
        assert job.final, job
        if job.id >= len(self.finals):
            self.finals.extend(bytes(job.id + 1 - len(self.finals)))
        self.finals[job.id] = job.final
        self.counts[job.final.name] += 1
        self.preemptions += job.preemptions

    def recall(self, job: Job) -> None:
        """Take a job back from the retired ones."""
        assert job.final, job
        self.finals[job.id] = 0
        self.counts[job.final.name] -= 1
        self.preemptions -= job.preemptions
