"""Checks of the process executor on this machine: enforced limits and GPUs."""

from collections.abc import Iterator
from pathlib import Path

from headway.findings import LIMITED, OK, Finding
from headway.live.executors.process.cgroups import CPUS, DEVICES, MEMORY, PROCESSES, NoCgroups
from headway.live.executors.process.cgroups.find import find_cgroups
from headway.live.executors.process.gpus import gpu_count, this_machine


def checks(data: Path) -> Iterator[Finding]:
    """Yield the findings. The control groups are those of another data folder, so that a running manager keeps its own."""
    groups = find_cgroups(data / "doctor")
    groups.close(lambda group: False)  # no job is in any of them
    for name, words in (
        (MEMORY, "memory of a job"),
        (CPUS, "CPUs of a job"),
        (PROCESSES, "processes of a job"),
        (DEVICES, "GPUs of others hidden"),
    ):
        if name in groups.enforced:
            yield Finding(words, OK, f"enforced by {groups.about}")
        elif isinstance(groups, NoCgroups):
            yield Finding(words, LIMITED, f"not enforced: {groups.why}", groups.fix)
        else:
            fix = (
                "CUDA_VISIBLE_DEVICES is set all the same"
                if name == DEVICES
                else "enable the controller for this group"
            )
            yield Finding(words, LIMITED, f"not enforced: {groups.about}", fix)
    if count := gpu_count():
        yield Finding("GPUs", OK, f"{count}, found by the driver")
    else:
        slots, fix = this_machine().cluster.total, "declare others: serve --cluster 2x4"
        yield Finding("GPUs", LIMITED, f"none found: {slots} slots, one per core", fix)
