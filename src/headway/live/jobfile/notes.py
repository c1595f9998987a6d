"""Which fields of a job file are obeyed: one that would change how a job runs is refused by name, one that only bounds it is noted."""

from headway.errors import BadInput
from headway.live.jobfile.spec import JobSpec


def refuse_unsupported(spec: JobSpec) -> None:
    """Refuse what would change how the job runs, but cannot be done yet."""
    refusals = {
        "network.isolation": (
            spec.network.isolation != "none",
            "needs a fabric that Headway controls, and the nodes of this machine have none: write isolation: none",
        ),
        "collective.schedule": (
            spec.collective.schedule != "none",
            "is not carried out for real jobs yet: write schedule: none",
        ),
        "checkpoint.interval": (
            spec.checkpoint is not None and spec.checkpoint.interval is not None,
            "is not carried out yet: leave it out, and let the job itself save at that interval",
        ),
    }
    for field, (asked, why) in refusals.items():
        if asked:
            raise BadInput(f"{field}: {why}")


def notes_on(spec: JobSpec) -> tuple[str, ...]:
    """What is accepted but changes nothing yet, one sentence each."""
    notes = []
    for name in ("cpus", "memory"):
        if getattr(spec.resources, name) is not None:
            notes.append(f"resources.{name} is not enforced yet: the job may use more")
    if spec.queue:
        notes.append("queue is a label only: it changes neither the order of jobs nor how many may run")
    return tuple(notes)
