"""Several collectives at once, and training iterations end to end."""

import pytest

from headway.collectives.schedulers import schedule
from headway.collectives.simulate.cost import CollectiveKind
from headway.collectives.simulate.graph import CollectiveRequest, run_together, run_together_freely
from headway.collectives.topology.presets import PRESETS
from headway.collectives.training.iteration import Settings, iterate, map_dimensions
from headway.collectives.training.workloads import WORKLOADS, workload
from headway.errors import BadInput

NETWORK = PRESETS["2D-SW_SW"]
AR = CollectiveKind.ALL_REDUCE


@pytest.mark.parametrize(
    ("name", "millions", "gflop"),
    [
        ("resnet-50", 25.5, 7.7),
        ("resnet-152", 60.0, 22.6),
        ("transformer-1t", 1_008_000, None),
        ("llm-405b", 405_000, None),
        ("llm-8b", 8_030, None),
    ],
)
def test_layer_tables_add_up_to_the_published_sizes(name, millions, gflop):
    model = workload(name)
    assert model.params / 1e6 == pytest.approx(millions, rel=0.015)
    if gflop:
        assert sum(layer.forward_flop for layer in model.layers) / 1e9 == pytest.approx(gflop, rel=0.05)


def test_an_unknown_workload_names_the_closest():
    with pytest.raises(BadInput, match="did you mean 'resnet-152'"):
        workload("resnet152")


def test_one_request_takes_what_the_scheduler_says():
    for method, options in (("baseline", {"scheduler": "baseline"}), ("themis-scf", {"scheduler": "themis"})):
        alone = run_together(NETWORK, [CollectiveRequest(AR, 10**8)], method)
        assert alone[0] == pytest.approx(schedule(NETWORK, 10**8, chunks=64, **options).time_s, rel=1e-9)


def test_urgent_collectives_overtake():
    requests = [CollectiveRequest(AR, 10**8), CollectiveRequest(AR, 10**7, issue_s=1e-5)]
    urgent = [requests[0], CollectiveRequest(AR, 10**7, issue_s=1e-5, priority=5)]
    plain, ahead = (run_together(NETWORK, each, "themis-fifo") for each in (requests, urgent))
    assert ahead[1] < plain[1] / 2
    assert max(ahead) == pytest.approx(max(plain), rel=0.1)


def test_together_is_never_slower_than_one_after_the_other():
    requests = [
        CollectiveRequest(AR, 5 * 10**7),
        CollectiveRequest(CollectiveKind.ALL_TO_ALL, 10**7),
        CollectiveRequest(CollectiveKind.ALL_GATHER, 10**7),
    ]
    alone = [run_together_freely(NETWORK, [request], "best")[0] for request in requests]
    assert max(run_together_freely(NETWORK, requests, "best")) <= sum(alone)


def test_together_every_method_chooses_its_chunks():
    requests = [CollectiveRequest(AR, 10**6), CollectiveRequest(CollectiveKind.ALL_GATHER, 10**6)]
    for method in ("baseline", "themis-scf"):
        fixed = [max(run_together(NETWORK, requests, method, chunks)) for chunks in (1, 4, 16, 64)]
        assert max(run_together_freely(NETWORK, requests, method)) == min(fixed) < fixed[-1] / 2


def test_a_priority_out_of_range_is_refused():
    with pytest.raises(BadInput, match="priority"):
        run_together(NETWORK, [CollectiveRequest(AR, 1000, priority=-1)], "themis-fifo")


def test_dimensions_are_mapped_whole():
    network = PRESETS["4D-Ring_SW_SW_SW"]
    mapping = map_dimensions(network, 16, 8)
    assert (mapping.tensor, mapping.data, mapping.pipeline) == ((0, 1), (2,), (3,))
    assert map_dimensions(network, 3, 1).data == (0, 1, 2, 3)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_iterations_take_at_least_their_computation_and_best_is_best(name):
    rows = iterate(workload(name), PRESETS["3D-SW_SW_SW_hetero"], Settings(chunks=8))
    methods = ["baseline", "themis-fifo", "themis-scf", "best", "baseline@8", "themis-fifo@8", "themis-scf@8"]
    assert [row.method for row in rows] == methods
    assert all(row.exposed_s >= 0 for row in rows)
    assert len({row.compute_s for row in rows}) == 1
    assert rows[3].time_s <= min(row.time_s for row in rows) * (1 + 1e-9)
    assert all(free.time_s <= fixed.time_s for free, fixed in zip(rows[:3], rows[4:], strict=True))


def test_communication_hides_behind_slow_computation_and_dominates_fast():
    network = NETWORK.without_latency()
    slow = iterate(workload("gnmt"), network, Settings(tflops=1.0))[0]
    quick = iterate(workload("gnmt"), network, Settings(tflops=1e5, bucket_bytes=10**10))
    assert slow.exposed_s < 0.01 * slow.time_s
    assert quick[0].exposed_s > 0.9 * quick[0].time_s
    # With next to no computation, the speed-up of an iteration is that of one all-reduce of all gradients.
    gain = schedule(network, 2 * workload("gnmt").params, scheduler="baseline").time_s
    gain /= schedule(network, 2 * workload("gnmt").params, scheduler="themis").time_s
    assert quick[0].time_s / quick[2].time_s == pytest.approx(gain, rel=0.05)


def test_bad_settings_are_refused():
    for options in ({"tflops": 0}, {"chunks": 0}, {"bucket_bytes": 0}, {"in_flight": 0}):
        with pytest.raises(BadInput):
            Settings(**options)
