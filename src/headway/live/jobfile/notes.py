"""Fields that cannot be obeyed: a field that changes how a job runs is refused by name, a field that only limits it is noted."""

import re

from headway.errors import wrong_field
from headway.live.jobfile.spec import JobSpec

# Beyond any machine; the kernel and Slurm do not accept larger numbers.
MOST = {"cpus": 1e6, "memory": 1e9}
# Patterns that `output` may hold (executors/common/environment.py: output_path); a number after % pads with zeros.
PATTERN = re.compile(r"%(\d*)(.?)", re.DOTALL)
PATTERNS = "%jAabxutnN"
NO_FABRIC = "needs a fabric, and none is known here (headway serve --fabric)"


def refuse_unsupported(spec: JobSpec, fabric: bool = False, isolates: bool = False) -> None:
    """Refuse fields that change how the job runs and cannot be obeyed. `isolates`: the placement reserves links of the fabric."""
    for name, most in MOST.items():
        if (asked := getattr(spec.resources, name) or 0.0) * spec.groups > most:
            raise wrong_field(
                f"resources.{name}", f"{asked:g} is more than any machine has: ask for less, or leave it out"
            )
    for match in PATTERN.finditer(spec.output or ""):
        if not match[2] or match[2] not in PATTERNS or len(match[1]) > 2:
            known = ", ".join(f"%{letter}" for letter in PATTERNS[1:])
            raise wrong_field("output", f"{match[0]!r} is not known here: write {known}, or %% for the sign itself")
    if spec.network.isolation == "ocs-vclos":
        raise wrong_field(
            "network.isolation", "ocs-vclos needs optical switches, and there are none here: write vclos or none"
        )
    if spec.network.isolation != "none" and not isolates:
        why = "the placement here reserves no links (headway serve --placement joint or vclos)" if fabric else NO_FABRIC
        raise wrong_field("network.isolation", f"{why}: write isolation: none")
    if spec.collective.schedule != "none" and not fabric:
        raise wrong_field("collective.schedule", f"{NO_FABRIC}: write schedule: none")
    if spec.checkpoint is not None and spec.checkpoint.interval is not None:
        why = "is not carried out yet: leave it out, and let the job itself save at that interval"
        raise wrong_field("checkpoint.interval", why)


def notes_on(spec: JobSpec, enforced: frozenset[str] = frozenset(), has_queues: bool = False) -> tuple[str, ...]:
    """Return one sentence for each field that is accepted and has no effect. `enforced` has the limits that are enforced here."""
    limits = [name for name in ("cpus", "memory") if getattr(spec.resources, name) and name not in enforced]
    notes = [
        f"resources.{name} is not enforced here: the executor sets no such limit, and the job may use more"
        for name in limits
    ]
    if spec.queue and not has_queues:
        notes.append(
            "queue changes neither the order of jobs nor how many may run: this manager has no queues file (headway serve --queues), "
            "so it may only have a minimum run time of its own"
        )
    return tuple(notes)
