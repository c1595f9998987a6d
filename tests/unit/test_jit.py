"""Kernels: one compile for all integers, no reference counts where nothing is allocated, machine code once, and on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit, objmode, typeof, types
from numba.core.errors import TypingError
from numba.core.event import install_recorder

from headway.core.compiler import notices, store
from headway.core.compiler.jit import Kernel, jit
from headway.core.compiler.tables import by_address
from headway.core.ledger import gpu_count, nodes_held
from headway.core.order import rank
from headway.core.tables.actions import Actions, actions
from headway.core.tables.state import new_state


@contextmanager
def compiled() -> Iterator[list[str]]:
    """The names of the functions that numba compiles in this block."""
    names: list[str] = []
    with install_recorder("numba:compile") as seen:
        yield names
    names += [event.data["dispatcher"].py_func.__name__ for _, event in seen.buffer if event.is_start]


@pytest.fixture
def said(monkeypatch) -> list[str]:
    """The lines that are said about compiling, as in a new process."""
    lines: list[str] = []
    monkeypatch.setattr(notices, "_listeners", [lines.append])
    monkeypatch.setattr(notices, "_said", set())
    monkeypatch.setattr(notices, "_compiled", 0)
    return lines


class Colour(IntEnum):
    RED = 1
    GREEN = 2


def test_constants_narrow_integers_and_enums_share_one_compile():
    @jit
    def add(x: int, n: int) -> int:
        return x + n

    @njit
    def use(column: np.ndarray) -> int:
        return add(column[0], 1) + add(column[0], 2) + add(3, column[1]) + add(Colour.RED, Colour.GREEN)

    with compiled() as names:
        assert use(np.array([10, 20], np.int32)) == 11 + 12 + 23 + 3
    assert names.count("add") == 1


def test_kernels_of_the_core_do_not_count_references():
    kernel = njit(_nrt=rank.entry.targetoptions["_nrt"])(rank.py_func)  # code from the cache cannot be looked into
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


def test_parts_become_internal_functions_of_the_kernel_that_python_calls(capfd):
    @jit
    def half(x: int) -> int:
        if x % 2:
            raise ValueError("odd", x)
        print("half of", x)  # needs Python objects, which numba keeps beside the code
        return x // 2

    @jit
    def quarter(x: int) -> int:
        return half(half(x))

    assert quarter(12) == 3
    assert capfd.readouterr().out == "half of 12\nhalf of 6\n"
    with pytest.raises(ValueError, match="odd"):
        quarter(6)
    (result,) = quarter.entry.overloads.values()
    exported = [f.name for f in result.library.get_defined_functions() if f.linkage.name == "external"]
    assert exported
    assert all("quarter" in name for name in exported)


def test_a_part_in_a_whole_is_not_taken_for_the_part_itself():
    """LLVM drops the arguments that an internal function does not use; whoever links the part by itself passes them all."""

    @jit
    def last(a: int, b: int, c: np.ndarray, d: np.ndarray) -> int:
        total = 0
        for x in d:  # a loop, so that it is not inlined into both callers
            total += x * x % 7 if x % 3 else last_of(d, x)
        return total

    @jit
    def last_of(d: np.ndarray, x: int) -> int:
        return d[-1] + x

    @jit
    def whole(c: np.ndarray, d: np.ndarray) -> int:
        return last(1, 2, c, d) + last(3, 4, c, d) + last(5, 6, c, d[1:])

    @njit
    def plain(c: np.ndarray, d: np.ndarray) -> int:
        return last(1, 2, c, d) + last(3, 4, c, d) + last(5, 6, c, d[1:])

    c, d = np.arange(3), np.arange(50)
    assert whole(c, d) == plain(c, d)
    for result in whole.entry.overloads.values():
        inside = [f.name for f in result.library.get_defined_functions() if f.linkage.name == "internal"]
        assert all(name.endswith(".part") for name in inside)


def test_importing_the_engine_compiles_and_loads_nothing():
    kernel = Kernel(gpu_count.py_func)
    assert not {"entry", "part"} & set(vars(kernel))


def test_a_kernel_on_disk_is_loaded_and_one_that_is_damaged_is_compiled_again(tmp_path, monkeypatch, said):
    monkeypatch.setattr(store, "_base", lambda: tmp_path)
    store.cache_folder.cache_clear()
    state = new_state(4, np.array([2, 3]))
    try:
        with compiled() as first:
            assert Kernel(gpu_count.py_func)(state) == 5
        (kept,) = tmp_path.glob("core-*/*gpu_count*.whole")
        with compiled() as second:
            assert Kernel(gpu_count.py_func)(state) == 5
        kept.write_bytes(kept.read_bytes()[:100])
        with compiled() as third:
            assert Kernel(gpu_count.py_func)(state) == 5
        assert not list(tmp_path.glob("core-*/*.tmp"))
    finally:
        store.cache_folder.cache_clear()
    assert ("gpu_count" in first, "gpu_count" in second, "gpu_count" in third) == (True, False, True)
    assert said == []


def test_parts_on_disk_are_linked_without_compiling_them_again(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_base", lambda: tmp_path)
    store.cache_folder.cache_clear()
    state = new_state(4, np.array([2, 3]))

    def chain() -> Kernel:
        """A new kernel that calls another, as in a new process."""
        inner = Kernel(nodes_held.py_func)
        outer = jit(lambda state: inner(state, state.jobs[0]))
        outer.py_func.__module__ = "headway.core.test"
        return outer

    try:
        with compiled() as first:
            assert chain()(state) == 0
        with compiled() as second:
            assert chain()(state) == 0
        assert list(tmp_path.glob("core-*/*nodes_held*.part"))
    finally:
        store.cache_folder.cache_clear()
    assert ("nodes_held" in first, "nodes_held" in second) == (True, False)


def test_a_cache_that_cannot_be_written_is_said_once_and_kernels_work(tmp_path, monkeypatch, said):
    (tmp_path / "file").touch()
    monkeypatch.setattr(store, "_base", lambda: tmp_path / "file" / "cache")
    store.cache_folder.cache_clear()
    try:
        state = new_state(4, np.array([2, 3]))
        assert Kernel(gpu_count.py_func)(state) == 5
        assert Kernel(rank.py_func)(state, 0) == 0
    finally:
        store.cache_folder.cache_clear()
    (line,) = said
    assert line.startswith(f"compiled code cannot be kept in {tmp_path / 'file' / 'cache'} (Not a directory)")
    assert "NUMBA_CACHE_DIR" in line


def test_only_a_long_compile_is_said(said):
    for _ in range(notices.LARGE - 1):
        notices.compiling()
    assert said == []
    for _ in range(3):
        notices.compiling()
    assert said == [notices.COMPILING]
    notices.not_kept("here", "why")
    notices.not_kept("there", "why")
    assert len(said) == 2


def test_what_kernels_import_is_part_of_the_name_of_their_folder():
    assert {"core.order", "core.events", "core.tables.jobs", "core.compiler.linking"} <= set(store._sources("core"))
    assert "policies.fifo" in store._sources("policies")


@by_address
class Pair(NamedTuple):
    """Two tables and a number, as a kernel gets them."""

    first: np.ndarray
    inner: Actions
    scale: float


def pair(scale: float = 2.0) -> Pair:
    return Pair(np.arange(4), actions(1, 2, 3), scale)


@jit
def total(tables: Pair, n: int) -> float:
    """Reads a table that it changes."""
    found = 0.0
    for i in range(n):
        tables.first[i] += 1
        found += tables.scale * tables.first[i]
    return found + len(tables.inner.links)


@jit
def ask(tables: Pair, n: int, how: Any) -> float:
    return total(tables, n) + how(tables)


def test_tables_go_in_by_address_and_python_passes_tuples():
    kind = typeof(pair())
    how = njit(types.float64(kind))(lambda tables: tables.scale * len(tables.inner.seats))
    given = pair(10.0)
    assert ask(given, 4, how) == 10.0 * (1 + 2 + 3 + 4) + 3 + 10.0 * 2
    assert given.first.tolist() == [1, 2, 3, 4]
    assert ask(pair(1.0), 1, how) == 1.0 + 3 + 2.0, "each call has its own words"


def test_tables_of_one_class_with_other_columns_are_another_type():
    assert typeof(pair()) == typeof(pair(3.0)) != typeof(pair()._replace(first=np.zeros(4)))
    assert ask(pair()._replace(first=np.full(4, 0.5)), 1, njit(lambda tables: 0.0)) == 3.0 + 3


def test_a_field_that_is_not_there_is_an_error_at_compile_time():
    with pytest.raises(TypingError, match="third"):
        jit(lambda tables: tables.third)(pair())


def test_functions_that_stay_in_python_get_the_tuple():
    seen = []

    @jit
    def outside(tables: Pair) -> float:
        with objmode(found="float64"):
            found = look(tables)
        return found

    def look(tables: Pair) -> float:
        seen.append(tables)
        return float(tables.first.sum())

    assert outside(pair()) == 6.0
    assert seen[0].scale == 2.0
