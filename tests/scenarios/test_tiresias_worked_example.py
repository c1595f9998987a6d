"""The worked example of the Tiresias slides (18 to 24): three jobs on two GPUs, decided every time unit."""

from fractions import Fraction

import numpy as np
import pytest
from tests.gittins import index_of

from headway.core.events import NAMES
from headway.sim.api import simulate
from headway.workloads.workload import workload

# J1: 2 GPUs for 2, J2: 1 GPU for 8, J3: 2 GPUs for 6; all arrive at 0.
JOBS = workload("slides", [0, 0, 0], [2, 1, 2], [2, 8, 6], job_id=["J1", "J2", "J3"])


def timeline(policy: str) -> tuple[list[tuple[str, float, float]], list[float]]:
    """Pieces of running time (job, from, to), those that touch joined, and the JCTs."""
    result = simulate(JOBS, "1x2", policy, keep_journal=True, preemption_cost="none")
    pieces: list[tuple[str, float, float]] = []
    since: dict[int, float] = {}
    for row in result.run.entries:
        kind, job, at = NAMES[row["kind"]], int(row["job"]), float(row["time"])
        if kind == "Started":
            since[job] = at
        elif kind in ("Stop", "Ended"):
            pieces.append((f"J{job + 1}", since.pop(job), at))
    return sorted(pieces, key=lambda piece: piece[1]), result.jobs["jct_s"].tolist()


@pytest.fixture
def distribution(tmp_path):
    """The slides' distribution of GPU-time: 4, 8 or 12, each as likely."""
    path = tmp_path / "services.txt"
    path.write_text("4\n8\n12\n")
    return path


def test_srsf_runs_the_shortest_remaining_service_first():
    pieces, jcts = timeline("srsf?quantum=1")
    assert pieces == [("J1", 0, 2), ("J2", 2, 10), ("J3", 10, 16)]
    assert jcts == [2, 10, 16]
    assert np.mean(jcts) == pytest.approx(9.33, abs=0.005)


def test_2d_las_gives_the_exact_timeline_of_the_slides():
    pieces, jcts = timeline("2d-las?quantum=1")
    assert pieces == [
        ("J1", 0, 1),
        ("J2", 1, 2),
        ("J3", 2, 3),
        ("J2", 3, 4),
        ("J1", 4, 5),
        ("J2", 5, 6),
        ("J3", 6, 7),
        ("J2", 7, 9),
        ("J3", 9, 10),
        ("J2", 10, 12),
        ("J3", 12, 13),
        ("J2", 13, 14),
        ("J3", 14, 16),
    ]
    assert jcts == [5, 14, 16]
    assert np.mean(jcts) == pytest.approx(11.67, abs=0.005)


def test_gittins_as_plotted_gives_the_slides_timeline(distribution):
    pieces, jcts = timeline(f"gittins?index=plotted&quantum=1&distribution={distribution}")
    assert pieces == [("J1", 0, 2), ("J2", 2, 6), ("J3", 6, 8), ("J2", 8, 12), ("J3", 12, 16)]
    assert jcts == [2, 12, 16]


def test_gittins_as_printed_averages_9_33(distribution):
    pieces, jcts = timeline(f"gittins?quantum=1&distribution={distribution}")
    assert pieces == [("J1", 0, 2), ("J2", 2, 10), ("J3", 10, 16)]
    assert np.mean(jcts) == pytest.approx(9.33, abs=0.005)


def test_the_printed_index_at_every_service_level():
    expected = ["1/8", "1/7", "1/6", "1/3", "1/6", "1/5", "1/4", "1/2", "1/4", "1/3", "1/2", "1"]
    found = [index_of(np.array([4.0, 8.0, 12.0]), a) for a in range(12)]
    assert found == pytest.approx([float(Fraction(value)) for value in expected], rel=1e-12)


def test_the_plotted_index_has_the_slides_marks():
    found = [index_of(np.array([4.0, 8.0, 12.0]), a, plotted=True) for a in range(12)]
    assert found[0] == pytest.approx(0.25)
    assert found[4] == pytest.approx(0.2)
    assert found[3] == pytest.approx(0.75)
    assert max(found[:4]) == found[3]


def test_the_plotted_index_at_every_service_level():
    def plotted(a: int) -> Fraction:
        ahead = [Fraction(s - a) for s in (4, 8, 12) if s > a]
        n = len(ahead)
        return max(n * k / (sum(ahead[:k]) + (n - k + 1) * ahead[k - 1]) for k in range(1, n + 1))

    found = [index_of(np.array([4.0, 8.0, 12.0]), a, plotted=True) for a in range(12)]
    assert found == pytest.approx([float(plotted(a)) for a in range(12)], rel=1e-12)
