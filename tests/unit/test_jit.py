"""The decorator of kernels: one compile for all integers, and no reference counts where nothing is allocated."""

import numpy as np
from numba import njit
from numba.core.event import install_recorder

from headway.core.compiler.jit import jit
from headway.core.order import rank
from headway.core.tables.state import new_state


def test_constants_and_narrow_integers_share_one_compile():
    @jit
    def add(x: int, n: int) -> int:
        return x + n

    @njit
    def use(column: np.ndarray) -> int:
        return add(column[0], 1) + add(column[0], 2) + add(3, column[1])

    with install_recorder("numba:compile") as seen:
        assert use(np.array([10, 20], np.int32)) == 11 + 12 + 23
    assert [event.data["dispatcher"].py_func.__name__ for _, event in seen.buffer if event.is_start].count("add") == 1


def test_kernels_of_the_core_do_not_count_references():
    kernel = njit(_nrt=rank.targetoptions["_nrt"])(rank.py_func)  # code from the cache cannot be looked into
    assert kernel(new_state(4, np.array([2])), 0) == 0
    (code,) = kernel.inspect_llvm().values()
    counted = njit(rank.py_func)
    counted(new_state(4, np.array([2])), 0)
    assert "call void @NRT_incref" not in code
    assert "NRT_" in next(iter(counted.inspect_llvm().values()))


def test_a_user_policy_may_allocate():
    @jit
    def total(n: int) -> float:
        return np.ones(n).sum()

    assert total(3) == 3.0
