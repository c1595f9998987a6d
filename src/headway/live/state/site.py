"""Site settings of the operator: limits on jobs, features of all nodes, and programs to run before and after each job."""

from dataclasses import dataclass
from typing import Final

from headway.live.fabric.served import ServedFabric
from headway.live.jobfile.spec import JobSpec

# Equal to STARTS_WITHIN_S (attempts.py): enough to save tens of GB, too little to hold GPUs for a night.
LONGEST_GRACE_S: Final = 600.0
KILL: Final = "SIGKILL"


@dataclass(frozen=True, slots=True)
class Site:
    """The operator's settings of one cluster. `gpu_type` is for nodes whose cluster file gives none, `features` for all nodes."""

    longest_grace_s: float = LONGEST_GRACE_S
    jobs_per_user: int | None = None  # active jobs; None: any number
    gpu_type: str = ""
    features: frozenset[str] = frozenset()
    prolog: str = ""
    epilog: str = ""
    max_processes: int | None = None  # of one attempt, with their threads; None: a default of the machine
    fabric: ServedFabric | None = None
    min_free_bytes: int = 0  # free space on the journal's disk below which no job is started

    def grace_s(self, spec: JobSpec) -> float:
        """Return the seconds that a job has to stop: its own grace, at most the site's."""
        return min(spec.preemption.grace, self.longest_grace_s)

    def notes(self, spec: JobSpec, enforced: frozenset[str]) -> tuple[str, ...]:
        """Return a sentence for each request that is cut to a limit, and for a limit that is not enforced."""
        notes = []
        if spec.preemption.grace > self.longest_grace_s:
            asked, most = f"{spec.preemption.grace:g} s", f"{self.longest_grace_s:g} s"
            notes.append(f"preemption.grace: {asked} is more than this cluster allows: the job is killed after {most}")
        if self.max_processes is not None and "processes" not in enforced:
            what = f"the limit of {self.max_processes} processes is not enforced here"
            notes.append(f"{what}: the job may have more (`headway doctor` says why)")
        return tuple(notes)


PLAIN: Final = Site()
