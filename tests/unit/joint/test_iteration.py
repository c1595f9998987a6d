"""The iteration model: closed forms against plans that are played, fits against made-up measurements, and what it does to a run."""

import numpy as np
import pytest
from bench.iteration_fit import Rows, fit, fit_parallel, parallel_features

import headway
from headway.collectives.limit import limit
from headway.collectives.schedulers import schedule
from headway.collectives.simulate.cost import CollectiveKind
from headway.collectives.topology.model import Dimension, DimensionKind, Topology
from headway.iteration.plans import BEST, PLANS, Bandwidth, Shape, communication_s, server_first, shape_of
from headway.network.fabric.model import Fabric
from headway.workloads.workload import workload

NETWORKS = [
    (4, 2, 1000, 100),
    (8, 4, 1000, 100),
    (8, 16, 600, 200),
    (4, 4, 128, 100),
    (8, 8, 200, 100),
    (2, 8, 1000, 100),
]
PLAYED = ("baseline", "themis", "best")


def on(each, servers, inside, nic):
    return Topology(
        "job", (Dimension(DimensionKind.SWITCH, each, inside), Dimension(DimensionKind.SWITCH, servers, nic))
    )


@pytest.mark.parametrize(("each", "servers", "inside", "nic"), NETWORKS)
@pytest.mark.parametrize("plan", PLAYED)
def test_closed_forms_are_within_half_a_per_cent_of_plans_that_are_played(each, servers, inside, nic, plan):
    played = schedule(on(each, servers, inside, nic), 10**9, scheduler=plan).time_s
    mine = 8 * communication_s(PLANS[plan], False, Shape(each, servers), Bandwidth(inside, nic))
    assert mine == pytest.approx(played, rel=0.005)


@pytest.mark.parametrize(("each", "servers", "inside", "nic"), NETWORKS)
def test_no_plan_is_below_the_exact_limit_and_best_reaches_it(each, servers, inside, nic):
    exact = limit(on(each, servers, inside, nic), CollectiveKind.ALL_REDUCE, 10**9).limit_s
    times = [8 * communication_s(PLANS[plan], False, Shape(each, servers), Bandwidth(inside, nic)) for plan in PLAYED]
    assert min(times) >= exact * (1 - 1e-9)
    assert times[2] == pytest.approx(exact, rel=0.01)
    assert times[2] <= times[1] * (1 + 1e-9) <= times[0] * (1 + 2e-9)


def test_the_server_goes_first_where_the_nic_is_the_bottleneck():
    assert server_first(BEST, Shape(8, 16), Bandwidth(3600, 100)) == 1.0
    assert 0.5 < server_first(BEST, Shape(4, 4), Bandwidth(128, 100)) < 1.0


def test_links_above_leaves_count_only_where_there_are_several():
    quiet, crowded = Bandwidth(1000, 100), Bandwidth(1000, 100, crowd=3.0)
    for exchanges in (False, True):
        assert communication_s(1, exchanges, Shape(8, 4, 1), crowded) == communication_s(
            1, exchanges, Shape(8, 4, 1), quiet
        )
        assert communication_s(1, exchanges, Shape(8, 4, 2), crowded) > communication_s(
            1, exchanges, Shape(8, 4, 2), quiet
        )
    assert communication_s(1, False, Shape(1, 1), quiet) == 0.0
    assert shape_of([4, 2, 4], [0, 0, 1]) == Shape(2, 3, 2)


def made_up(seed=0):
    """Measurements that follow the model exactly."""
    draw = np.random.default_rng(seed)
    servers = draw.integers(1, 5, 60).astype(float)
    each = draw.integers(1, 9, 60).astype(float)
    work = draw.uniform(8, 64, 60)
    talk = 0.03 * 2 * (1 - 1 / each) + 0.2 * 2 * (1 - 1 / servers)
    return Rows(each, servers, each * servers, work, 0.1 + 0.01 * work + talk)


def test_a_fit_finds_the_model_that_made_the_measurements():
    rows = made_up()
    found = fit(rows.take(np.arange(60) < 40))
    other = rows.take(np.arange(60) >= 40)
    assert np.abs(found.seconds(other) / other.seconds - 1).max() < 0.02
    assert not found.nic_per_gpu
    assert found.q < 1.2  # nothing hides


def test_a_fit_of_three_kinds_of_parallelism():
    draw = np.random.default_rng(1)
    pp, tp, dp = (2.0 ** draw.integers(0, 4, 30) for _ in range(3))
    features = parallel_features(pp, tp, dp, np.full(30, 8.0), np.ceil(pp * tp * dp / 8))
    true = np.array([0.1, 20.0, 2.0, 0.5, 1.0, 3.0, 0.01])
    assert fit_parallel(features, features @ true) == pytest.approx(true, rel=1e-6)


SLOW = Fabric("pcie", "leaf-spine", (0, 0, 1, 1), 4, spines=8, server_gbps=128.0)


def alone(places, collective, model="VGG16", gpus=8):
    """How long one job of 1,000 s runs where a placement puts it."""
    jobs = workload("one", [0.0], [gpus], [1000.0], model=[model])
    given = {"collective": collective, "network": "ideal", "fabric": SLOW, "placement": places}
    return headway.simulate(jobs, "4x4", "fifo", **given).summary["jct_s"]["mean"]


def test_the_baseline_on_the_fewest_nodes_is_what_the_trace_says():
    assert alone("consolidated", "none") == alone("consolidated", "baseline") == 1000.0
    assert alone("consolidated", "baseline", "llama7") == pytest.approx(1000.0)


def test_a_better_plan_is_quicker_and_spreading_is_slower():
    best, themis, baseline = (alone("consolidated", plan, "bert") for plan in ("best", "themis", "baseline"))
    assert best <= themis < baseline == pytest.approx(1000.0)
    assert alone("spread", "baseline", gpus=4) > alone("consolidated", "baseline", gpus=4) * 1.02
    assert alone("spread", "none", gpus=4) == 1000.0


def test_a_measured_model_follows_its_own_volume():
    """LLaMA-7B: 112 Gbit a second of 1.13, four fifths exposed; all-reduce over 2 servers of 4 on PCIe."""
    volume = 7e9 * 16 / 1e9 * 0.8 / 1.13
    at = Bandwidth(128.0, 100.0)
    base, best = (volume * communication_s(plan, False, Shape(4, 2), at) for plan in (1, BEST))
    assert alone("consolidated", "best", "llama7") == pytest.approx(1000 * (1 + best) / (1 + base), rel=1e-9)


def test_collectives_in_a_sweep(tmp_path):
    from headway.sim.sweep.file import cells, read_sweep

    path = tmp_path / "sweep.yaml"
    path.write_text("traces: synthetic:tiresias-480\nclusters: 15x4\npolicies: [fifo]\ncollective: [baseline, best]\n")
    assert [cell.collective for cell in cells(read_sweep(path))] == ["baseline", "best"]
