"""The GPUs of this machine, from the driver's library (NVML), and the limits of an attempt on it."""

import ctypes
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.cluster.nodes import Cluster
from headway.live.executors import Discovery, Launch
from headway.live.executors.process.cgroups import AttemptLimits

MOST_CPUS, MOST_BYTES = 1e6, 2.0**60  # beyond any machine, and beyond what the kernel accepts
NVIDIA_MAJOR = 195  # of /dev/nvidia0 and so on (Documentation/admin-guide/devices.txt)
LIBRARY = "libnvidia-ml.so.1"


def this_machine() -> Discovery:
    """Return this machine as one node with its GPUs; if it has none, with one slot per core."""
    count, note = gpu_count(), ""
    if count == 0:
        count = os.cpu_count() or 1
        note = f"no GPU found: {count} slots, one per core; declare others with --cluster, such as --cluster 2x4"
    return Discovery(Cluster(f"1x{count}", (socket.gethostname(),), (count,)), note)


def gpu_count() -> int:
    """Return the number of GPUs that the NVIDIA driver lists; 0 without a driver."""
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
    """Return the limits of an attempt: the resources of its job file for all nodes, and no GPUs of this machine but its own."""
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
    """Return a requested limit; None if there is none, or if it is beyond any machine."""
    return asked if 0.0 < asked <= most else None


def renumber(ranks: list[dict[str, Any]], gpus: Sequence[int]) -> None:
    """Number the GPUs of ranks as the driver does when a job sees only its own GPUs: from 0, in the order of the bus."""
    seen = {str(gpu): str(place) for place, gpu in enumerate(sorted(set(gpus)))}
    for rank in ranks:
        visible = rank["env"]["CUDA_VISIBLE_DEVICES"].split(",")
        rank["env"] |= {
            "CUDA_VISIBLE_DEVICES": ",".join(seen[gpu] for gpu in visible),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }
