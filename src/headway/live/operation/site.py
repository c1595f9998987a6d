"""What the operator says about a cluster beside its nodes: limits on jobs, what all nodes have, and programs around every job."""

from dataclasses import dataclass
from typing import Final

from headway.errors import BadInput
from headway.live.fabric.served import ServedFabric
from headway.live.jobfile.spec import JobSpec

# As long as a start is waited for (turns.py): enough to save tens of GB, and not enough to hold GPUs for a night.
LONGEST_GRACE_S: Final = 600.0
KILL: Final = "SIGKILL"


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster's house rules. Nodes are alike: what is said of GPUs and features holds for all of them."""

    longest_grace_s: float = LONGEST_GRACE_S
    jobs_per_user: int | None = None  # that have not ended; None: any number
    gpu_type: str = ""
    features: frozenset[str] = frozenset()
    prolog: str = ""
    epilog: str = ""
    fabric: ServedFabric | None = None

    def grace_s(self, spec: JobSpec) -> float:
        """Seconds that a job has to stop: what it asks for, at most what is allowed."""
        return min(spec.preemption.grace, self.longest_grace_s)

    def check(self, spec: JobSpec) -> None:
        """Refuse a job that asks for what these nodes do not have."""
        asked = spec.resources.type
        if asked and asked.lower() != self.gpu_type.lower():
            have = f"this cluster has {self.gpu_type}" if self.gpu_type else "the type of the GPUs here is not declared"
            raise BadInput(f"resources.type: the job asks for {asked} GPUs, and {have} (headway serve --gpu-type)")
        features = self.features | ({self.gpu_type} if self.gpu_type else set())
        missing = sorted({feature for feature in spec.constraints if feature not in features})
        if missing:
            have = ", ".join(sorted(features)) or "none declared"
            raise BadInput(
                f"constraints: no node here has {', '.join(missing)}; features: {have} (headway serve --feature)"
            )

    def notes(self, spec: JobSpec) -> tuple[str, ...]:
        """What is allowed less of than the job asks for, one sentence each."""
        if spec.preemption.grace <= self.longest_grace_s:
            return ()
        asked, most = f"{spec.preemption.grace:g} s", f"{self.longest_grace_s:g} s"
        return (f"preemption.grace: {asked} is more than this cluster allows: the job is killed after {most}",)


PLAIN: Final = Site()
