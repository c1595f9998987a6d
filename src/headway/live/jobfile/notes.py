"""Which fields of a job file are obeyed: one that would change how a job runs is refused by name, one that only bounds it is noted."""

from headway.errors import BadInput
from headway.live.jobfile.spec import JobSpec


def refuse_unsupported(spec: JobSpec) -> None:
    """Refuse what would change how the job runs, but cannot be done yet."""
    if spec.network.isolation != "none":
        why = "needs a fabric that Headway controls, and the nodes of this machine have none: write isolation: none"
        raise BadInput(f"network.isolation: {why}")
    if spec.collective.schedule != "none":
        raise BadInput("collective.schedule: is not carried out for real jobs yet: write schedule: none")
    if spec.checkpoint is not None and spec.checkpoint.interval is not None:
        why = "is not carried out yet: leave it out, and let the job itself save at that interval"
        raise BadInput(f"checkpoint.interval: {why}")


def notes_on(spec: JobSpec, enforced: frozenset[str] = frozenset(), has_queues: bool = False) -> tuple[str, ...]:
    """What is accepted but changes nothing, one sentence each; `enforced` names the bounds that hold here."""
    bounds = [name for name in ("cpus", "memory") if getattr(spec.resources, name) and name not in enforced]
    notes = [
        f"resources.{name} is not enforced here: the job may use more (`headway doctor` says why)" for name in bounds
    ]
    if spec.queue and not has_queues:
        notes.append(
            "queue changes neither the order of jobs nor how many may run: this manager has no queues file (headway serve --queues), "
            "so it may only have a minimum run time of its own"
        )
    return tuple(notes)
