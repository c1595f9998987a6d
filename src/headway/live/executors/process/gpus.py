"""The GPUs of this machine, asked of the driver's own library (NVML) where there is one."""

import ctypes
import os
import socket

from headway.cluster.nodes import Cluster
from headway.live.executors import Discovery

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
        found = ctypes.c_uint(0)
        return int(found.value) if nvml.nvmlDeviceGetCount_v2(ctypes.byref(found)) == 0 else 0
    finally:
        nvml.nvmlShutdown()
