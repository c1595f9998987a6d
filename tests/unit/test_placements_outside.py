"""Placements from outside Headway: as `module:Class`, as objects, compiled or called back; mistakes are one clear line."""

import sys

import numpy as np
import pytest

import headway
from headway.core.tables.actions import add_link, add_seat
from headway.errors import BadInput, HeadwayError
from headway.placement.registry import find_placement

TRACE = "synthetic:tiresias-480?jobs=30&seed=2"
SOURCE = '''
from headway.core.tables.actions import add_seat

class LastFit:
    """The last node that holds the job, or none."""

    by_class = True

    def __init__(self, least="0"):
        least = int(least)

        def place(nodes, leaves, fewest, job, options, out):
            for x in range(len(nodes.offer) - 1, -1, -1):
                if nodes.offer[x] >= job.gpus + least:
                    add_seat(out, x, job.gpus)
                    return True
            return False

        self.place = place
'''


@pytest.fixture
def outside(tmp_path, monkeypatch):
    (tmp_path / "outside_placement.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "outside_placement:LastFit"
    sys.modules.pop("outside_placement", None)


def simulate(placement, **given):
    return headway.simulate(TRACE, "4x32", "tiresias-l", placement=placement, keep_journal=True, **given)


def test_a_placement_by_module_and_class_runs_and_keeps_its_name(outside):
    result = simulate(outside)
    assert result.summary["placement"] == outside
    assert result.summary["finished"] == 30
    assert find_placement(f"{outside}?least=2").name == f"{outside}?least=2"


def test_an_object_runs_too_also_one_that_cannot_be_compiled(outside):
    class Called:
        """Names in a set: not for the compiler."""

        def place(self, nodes, leaves, fewest, job, options, out):
            fitting = {x for x, gpus in enumerate(nodes.offer) if gpus >= job["gpus"]}
            if not fitting:
                return False
            add_seat(out, max(fitting), int(job["gpus"]))
            return True

    called, compiled = simulate(Called()), simulate(outside)
    assert called.summary["placement"] == "Called"
    assert called.run.entries.tobytes() == compiled.run.entries.tobytes()


@pytest.mark.parametrize(
    ("seats", "words"),
    [
        ([(0, 0)], "^the placement took GPUs of a node that were not on offer$"),
        ([], "^the placement placed a job on the wrong number of GPUs$"),
        ([(0, 1)] * 100, "wrong number of GPUs"),
        ([(0, 1)] * 200_000, "more seats than there are GPUs"),
        ([(99, 1)], "a node that does not exist"),
        ([(-1, 1)], "a node that does not exist"),
        ([(0, 33)], "not on offer"),
    ],
)
def test_one_that_seats_wrongly_is_a_clear_error_never_a_job_on_no_gpus(seats, words):
    class Wrong:
        def place(self, nodes, leaves, fewest, job, options, out):
            for node, gpus in seats:
                add_seat(out, node, gpus)
            return True

    with pytest.raises(HeadwayError, match=words):
        simulate(Wrong())


@pytest.mark.parametrize("leaf", [0, 1, -1, 100_000_000])
def test_links_that_do_not_exist_are_refused(leaf):
    class Linked:
        def place(self, nodes, leaves, fewest, job, options, out):
            add_seat(out, 0, int(job["gpus"]))
            add_link(out, leaf, np.uint64(1))
            return True

    with pytest.raises(HeadwayError, match="links that were not on offer"):
        simulate(Linked())


def test_what_it_added_before_it_gave_up_is_forgotten():
    class GivesUp:
        """Fills the nodes from the first on, and says at the end whether that was enough."""

        def place(self, nodes, leaves, fewest, job, options, out):
            left = int(job["gpus"])
            for x in range(len(nodes.offer)):
                taken = min(left, int(nodes.offer[x]))
                if taken:
                    add_seat(out, x, taken)
                left -= taken
            return left == 0

    for policy in ("fifo", "las", "tiresias-l"):
        found = headway.simulate("synthetic:tiresias-480?jobs=30&seed=2", "4x8", policy, placement=GivesUp())
        assert found.summary["finished"] == 30


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("no_such_module:X", "cannot import"),
        ("headway.errors:Nothing", "has no 'Nothing'"),
        ("headway.errors:BadInput", "not a placement"),
        (object(), "not a placement"),
        (find_placement, "not a placement"),
    ],
)
def test_what_is_no_placement_is_refused(spec, words):
    with pytest.raises(BadInput, match=words):
        find_placement(spec)


def test_a_class_is_not_an_object():
    class Some:
        def place(self, *given):
            return False

    with pytest.raises(BadInput, match=r"Some is a class: give an object"):
        find_placement(Some)
