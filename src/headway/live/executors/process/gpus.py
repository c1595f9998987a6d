"""The GPUs of this machine, asked of the driver's own library (NVML) where there is one; and what of the machine an attempt may use."""

import ctypes
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.cluster.nodes import Cluster
from headway.live.executors import Discovery, Launch
from headway.live.executors.process.cgroups import AttemptLimits

MOST_CPUS, MOST_BYTES = 1e6, 2.0**60  # of any machine: more than that is no limit, and more than the kernel takes
NVIDIA_MAJOR = 195  # of /dev/nvidia0 and so on (Documentation/admin-guide/devices.txt)
LIBRARY = "libnvidia-ml.so.1"


def this_machine() -> Discovery:
    """One node with the GPUs of this machine, or with one slot per core where it has none."""
    count, note = gpu_count(), ""
    if count == 0:
        count = os.cpu_count() or 1
        note = f"no GPU found: {count} slots, one per core; declare others with --cluster, such as --cluster 2x4"
    return Discovery(Cluster(f"1x{count}", (socket.gethostname(),), (count,)), note)


def gpu_count() -> int:
    """GPUs that the NVIDIA driver knows; 0 without a driver."""
    try:
        nvml = ctypes.CDLL(LIBRARY)
    except OSError:
        return 0
    if nvml.nvmlInit_v2() != 0:
        return 0
    try:
        count = ctypes.c_uint(0)
        return int(count.value) if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 else 0
    finally:
        nvml.nvmlShutdown()


def limits_of(launch: Launch, devices: Path = Path("/dev")) -> AttemptLimits:
    """What an attempt may use: what its file asks for on every node, and its own GPUs of those that are here."""
    asked, nodes = launch.spec.resources, launch.spec.groups
    here = {int(path.name[6:]) for path in devices.glob("nvidia[0-9]*") if path.name[6:].isdigit()}
    size = _up_to(MOST_BYTES, (asked.memory or 0.0) * 1e9 * nodes)
    return AttemptLimits(
        cpus=_up_to(MOST_CPUS, (asked.cpus or 0.0) * nodes),
        memory_bytes=None if size is None else int(size),
        processes=launch.max_processes,
        denied=tuple((NVIDIA_MAJOR, number) for number in sorted(here - set(launch.gpus))),
    )


def _up_to(most: float, asked: float) -> float | None:
    """What is asked for; None: nothing is, or more than there can be."""
    return asked if 0.0 < asked <= most else None


def renumber(ranks: list[dict[str, Any]], gpus: Sequence[int]) -> None:
    """Where a job sees only its own GPUs, the driver counts them from 0, in the order of the bus."""
    seen = {str(gpu): str(place) for place, gpu in enumerate(sorted(set(gpus)))}
    for rank in ranks:
        visible = rank["env"]["CUDA_VISIBLE_DEVICES"].split(",")
        rank["env"] |= {
            "CUDA_VISIBLE_DEVICES": ",".join(seen[gpu] for gpu in visible),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }
