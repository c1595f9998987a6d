"""Deny devices to a group, on version 2: the kernel runs a small program (BPF) at every opening of a device.

Documented in the kernel's Documentation/admin-guide/cgroup-v2.rst (Device controller) and include/uapi/linux/bpf.h. The program is
attached to the group's folder, and goes with it.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Sequence
from pathlib import Path

# The number of the system call bpf(2); include/uapi/asm-generic/unistd.h and the tables of the older machines.
SYSCALLS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361}
PROG_LOAD, PROG_ATTACH = 5, 8
CGROUP_DEVICE_PROGRAM, CGROUP_DEVICE, ALLOW_MULTI = 15, 6, 2
ATTRIBUTES = 128  # bytes; what is not set is zero
STEP_BYTES, CHARACTER_DEVICE = 8, 2
# Operations: load a word, and, jump if not equal, jump, move, exit.
LOAD, AND, IF_NOT, GO, MOVE, EXIT = 0x61, 0x57, 0x55, 0x05, 0xB7, 0x95


def program(denied: Sequence[tuple[int, int]]) -> bytes:
    """Return the code of a program that denies all access to these character devices, and allows all others."""
    # Register 1 points to {access << 16 | kind, major, minor}; the answer is left in register 0.
    code = [
        _step(LOAD, 2, 1, offset=0),
        _step(AND, 2, value=0xFFFF),
        _step(LOAD, 3, 1, offset=4),
        _step(LOAD, 4, 1, offset=8),
    ]
    code.append(_step(IF_NOT, 2, offset=3 * len(denied), value=CHARACTER_DEVICE))
    for left, (major, minor) in zip(range(len(denied) - 1, -1, -1), denied, strict=True):
        code += [_step(IF_NOT, 3, offset=2, value=major), _step(IF_NOT, 4, offset=1, value=minor)]
        code.append(_step(GO, offset=3 * left + 2))
    code += [_step(MOVE, 0, value=1), _step(EXIT), _step(MOVE, 0, value=0), _step(EXIT)]
    return b"".join(code)


def _step(operation: int, to: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", operation, source << 4 | to, offset, value)


def deny(folder: Path, devices: Sequence[tuple[int, int]]) -> None:
    """Deny these devices to a group; OSError if the kernel refuses."""
    loaded = _load(program(devices))
    try:
        group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(PROG_ATTACH, struct.pack("=IIII", group, loaded, CGROUP_DEVICE, ALLOW_MULTI))
        finally:
            os.close(group)
    finally:
        os.close(loaded)


def can_deny() -> bool:
    """Return whether the kernel lets this process load such a program."""
    try:
        os.close(_load(program([(1, 1)])))
    except OSError:
        return False
    return True


def _load(code: bytes) -> int:
    code_at, license_at = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    places = (ctypes.addressof(code_at), ctypes.addressof(license_at))
    return _bpf(PROG_LOAD, struct.pack("=IIQQ", CGROUP_DEVICE_PROGRAM, len(code) // STEP_BYTES, *places))


def _bpf(command: int, attributes: bytes) -> int:
    number = SYSCALLS.get(platform.machine())
    if number is None:
        raise OSError(38, f"no bpf on {platform.machine()}")
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes.ljust(ATTRIBUTES, b"\0"), ATTRIBUTES)
    result = int(libc.syscall(number, command, buffer, ATTRIBUTES))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
