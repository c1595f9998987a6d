"""Plans: their file, their replay, what is refused; and phases whose times can be worked out by hand."""

import json

import pytest

from headway.collectives.plan import plan_from_json, plan_to_json
from headway.collectives.schedulers import schedule
from headway.collectives.simulate.cost import CollectiveKind
from headway.collectives.simulate.play import impaired, play, utilisation_over_time
from headway.errors import BadInput
from headway.sim.network_files import topology_from

NETWORK = topology_from("switch:4:80Gbps:100ns,ring:2:40Gbps:50ns")
KINDS = list(CollectiveKind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheduler", ["baseline", "themis", "best"])
@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_written_plan_replays_to_the_reported_time(kind, scheduler, in_flight):
    outcome = schedule(NETWORK, 1_000_003, scheduler=scheduler, collective=kind, chunks=7, in_flight=in_flight)
    again = plan_from_json(plan_to_json(outcome.plan))
    assert again == outcome.plan
    assert play(again, NETWORK, in_flight).time_s == outcome.time_s
    assert sum(chunk.bytes for chunk in again.chunks) == 1_000_003


def test_the_files_shape_is_the_contract():
    rows = json.loads(plan_to_json(schedule(NETWORK, 1000, scheduler="themis", chunks=2).plan))
    assert set(rows) == {"chunks", "lists"}
    assert all(set(chunk) == {"bytes", "rs", "ag"} for chunk in rows["chunks"])
    assert len(rows["lists"]) == 2
    assert all(step[1] in ("rs", "ag") for steps in rows["lists"] for step in steps)


def test_one_chunk_takes_the_sum_of_its_phases():
    # 8 MB: reduce-scatter 3 x 2 MB at 10 GB/s + 2 steps of 2 x 100 ns, then 1 x 1 MB at 5 GB/s + 50 ns; and back.
    outcome = schedule(NETWORK, 8_000_000, scheduler="baseline", chunks=1)
    assert outcome.time_s == pytest.approx(2 * (600e-6 + 400e-9 + 200e-6 + 50e-9), abs=1e-12)


def test_an_all_to_all_sends_its_whole_size_on_every_dimension():
    outcome = schedule(NETWORK, 8_000_000, scheduler="best", collective=CollectiveKind.ALL_TO_ALL, chunks=1)
    assert outcome.timeline.bytes_on(0) == 6_000_000
    assert outcome.timeline.bytes_on(1) == 4_000_000
    assert outcome.limit.limit_s == pytest.approx(800e-6)


def test_chunks_in_flight_hide_latency_but_not_bytes():
    slow = topology_from("ring:16:800Gbps:5us,switch:8:800Gbps:5us")
    one = schedule(slow, 10_000_000, scheduler="themis", chunks=64)
    four = schedule(slow, 10_000_000, scheduler="themis", chunks=64, in_flight=4)
    assert four.time_s < one.time_s / 2
    assert four.time_s >= four.limit.limit_s


def test_the_baseline_goes_straight_from_reduce_scatter_to_all_gather_on_its_last_dimension():
    steps = schedule(NETWORK, 10_000, scheduler="baseline", chunks=5).plan.lists[-1]
    assert steps == tuple((chunk, kind) for chunk in range(5) for kind in ("rs", "ag"))


def test_a_degraded_dimension_and_a_straggler_slow_a_plan_that_does_not_know():
    outcome = schedule(NETWORK, 10_000_000, scheduler="best")
    assert play(outcome.plan, impaired(NETWORK, {0: 0.5})).time_s > 1.3 * outcome.time_s
    assert play(outcome.plan, impaired(NETWORK, {}, 1.5)).time_s == pytest.approx(1.5 * outcome.time_s, rel=1e-6)
    for degraded, straggler in (({7: 0.5}, 1.0), ({0: 0.0}, 1.0), ({0: 2.0}, 1.0), ({}, 0.5)):
        with pytest.raises(BadInput):
            impaired(NETWORK, degraded, straggler)


def test_utilisation_over_time_adds_up_to_the_busy_time():
    outcome = schedule(NETWORK, 10_000_000, scheduler="themis", in_flight=2)
    used = utilisation_over_time(outcome.timeline, NETWORK, 50)
    for dim in range(2):
        assert used[dim].mean() * outcome.time_s == pytest.approx(outcome.timeline.busy_s(dim), rel=1e-6)
    assert used.max() <= 1 + 1e-9


GOOD = {"chunks": [{"bytes": 8, "rs": [0, 1], "ag": [1, 0]}], "lists": [[[0, "rs"], [0, "ag"]], [[0, "rs"], [0, "ag"]]]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"chunks": []}, "chunks"),
        ({"chunks": [{"bytes": 0, "rs": [0, 1], "ag": [1, 0]}]}, "chunks.0.bytes"),
        ({"chunks": [{"bytes": 8, "rs": [0, 0], "ag": [1, 0]}]}, "each of the 2 dimensions once"),
        ({"lists": [[[0, "rs"]], [[0, "rs"], [0, "ag"]]]}, "lists.0"),
        ({"lists": [[[0, "rs"], [0, "rs"]], [[0, "rs"], [0, "ag"]]]}, "exactly once"),
        ({"extra": 1}, "extra"),
    ],
)
def test_damaged_plans_are_refused(change, said):
    with pytest.raises(BadInput, match=said):
        plan_from_json(json.dumps(GOOD | change))


def test_a_key_given_twice_in_a_plan_is_named():
    text = json.dumps(GOOD).replace('"bytes": 8', '"bytes": 8, "bytes": 16')
    with pytest.raises(BadInput, match=r"p\.json: not a plan: the key 'bytes' is there twice: keep one"):
        plan_from_json(text, "p.json")


def test_lists_that_contradict_the_orders_are_refused_not_hung():
    crossed = GOOD | {"lists": [[[0, "ag"], [0, "rs"]], [[0, "rs"], [0, "ag"]]]}
    with pytest.raises(BadInput, match="could never start"):
        play(plan_from_json(json.dumps(crossed)), NETWORK)


def test_a_plan_for_another_network_is_refused():
    plan = schedule(NETWORK, 1000, scheduler="baseline", chunks=2).plan
    with pytest.raises(BadInput, match="2 dimensions"):
        play(plan, topology_from("2D-SW_SW").part((0,)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scheduler": "themiss"}, "did you mean 'themis'"),
        ({"scheduler": "themis", "intra": "lifo"}, "fifo"),
        ({"scheduler": "themis", "chunks": 2000}, "at most 1000 chunks"),
        ({"scheduler": "themis", "in_flight": 0}, "at least 1"),
    ],
)
def test_bad_settings_are_refused(options, said):
    with pytest.raises(BadInput, match=said):
        schedule(NETWORK, 1000, **options)


def test_nothing_to_send_is_refused():
    with pytest.raises(BadInput, match="nothing to send"):
        schedule(NETWORK, 0)
