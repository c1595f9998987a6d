"""How many GPUs this machine has, asked of the driver's own library (NVML) where there is one."""

import ctypes

LIBRARY = "libnvidia-ml.so.1"


def count() -> int:
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
