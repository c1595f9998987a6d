"""Plans written for MSCCL++, executed by an interpreter of their JSON that knows nothing of how they were made."""

import json
from collections import deque

import numpy as np
import pytest

from headway.collectives.mscclpp import export_plan, export_wired
from headway.collectives.schedulers import schedule
from headway.collectives.simulate.cost import Collective
from headway.collectives.topology.text import topology_from
from headway.collectives.wiring.spread import plan_wiring
from headway.collectives.wiring.text import faults_from, wiring_from
from headway.errors import BadInput


class Machine:
    """Ranks that execute their lists, in any interleaving; a put may stay on its way for a while."""

    def __init__(self, text: str, rng: np.random.Generator) -> None:
        self.plan, self.rng = json.loads(text), rng
        self.gpus = self.plan["gpus"]
        self.buffers = []
        for gpu in self.gpus:
            data = rng.integers(0, 1000, gpu["input_chunks"])
            self.buffers.append({"i": data, "s": np.full(gpu["scratch_chunks"], -(10**9))})
        self.wanted = sum(buffers["i"] for buffers in self.buffers)
        self.links: dict[tuple[int, int], deque] = {}
        self.arrived: dict[tuple[int, int], int] = {}
        self.ends = self._pairs()

    def _pairs(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Channel of a rank: the rank and channel at its other end, paired in order."""
        ends = {}
        for gpu in self.gpus:
            peers = [peer for channel in gpu["channels"] for peer in channel["connected_to"]]
            for number, peer in enumerate(peers):
                nth = peers[:number].count(peer)
                back = [other for channel in self.gpus[peer]["channels"] for other in channel["connected_to"]]
                ends[gpu["id"], number] = peer, [i for i, one in enumerate(back) if one == gpu["id"]][nth]
        return ends

    def run(self) -> None:
        heads = [0] * len(self.gpus)
        lists = [gpu["threadblocks"][0]["ops"] for gpu in self.gpus]
        while True:
            able = [rank for rank in range(len(heads)) if heads[rank] < len(lists[rank])]
            flying = [key for key, queue in self.links.items() if queue]
            if not able and not flying:
                return
            if flying and (self.rng.random() < 0.3 or not self._step_any(able, heads, lists)):
                self._land(flying[int(self.rng.integers(len(flying)))])
            elif not flying:
                assert self._step_any(able, heads, lists), "every rank waits"

    def _step_any(self, able, heads, lists) -> bool:
        for rank in self.rng.permutation(able).tolist():
            if self._step(rank, lists[rank][heads[rank]]):
                heads[rank] += 1
                return True
        return False

    def _step(self, rank: int, op: dict) -> bool:
        name, mine = op["name"], self.buffers[rank]
        if name in ("nop", "flush"):
            return True
        if name == "re":
            own, came = op["src_buff"]
            mine[own["type"]][span(own)] += mine[came["type"]][span(came)]
            return True
        (channel,) = op["channel_ids"]
        if name == "wait":
            if self.arrived.get((rank, channel), 0) < 1:
                return False
            self.arrived[rank, channel] -= 1
            return True
        peer, there = self.ends[rank, channel]
        if name == "signal":
            self.links.setdefault((peer, there), deque()).append(None)
            return True
        assert name == "pws"
        (source,), (target,) = op["src_buff"], op["dst_buff"]
        remote = self.gpus[rank]["remote_buffers"][target["buffer_id"]]
        assert remote["rank"] == peer
        # A proxy reads the source later: what is there when the data lands is what arrives.
        self.links.setdefault((peer, there), deque()).append((rank, source, remote["type"], target))
        return True

    def _land(self, key: tuple[int, int]) -> None:
        sent = self.links[key].popleft()
        if sent is not None:
            rank, source, kind, target = sent
            self.buffers[key[0]][kind][span(target)] = self.buffers[rank][source["type"]][span(source)]
        self.arrived[key] = self.arrived.get(key, 0) + 1


def span(buffer: dict) -> slice:
    return slice(buffer["index"], buffer["index"] + buffer["size"])


def check(text: str, seed: int) -> Machine:
    machine = Machine(text, np.random.default_rng(seed))
    machine.run()
    for buffers in machine.buffers:
        assert (buffers["i"] == machine.wanted).all()
    return machine


@pytest.mark.parametrize("scheduler", ["baseline", "themis", "best"])
@pytest.mark.parametrize(
    "network", ["switch:4:800Gbps:700ns,ring:2:400Gbps:0ns", "ring:2:100Gbps,switch:3:800Gbps,ring:2:50Gbps"]
)
def test_a_plan_of_dimensions_adds_up_on_every_rank(scheduler, network):
    topology = topology_from(network)
    outcome = schedule(topology, 10**7, scheduler=scheduler, chunks=6)
    for seed in range(3):
        machine = check(export_plan(outcome.plan, topology, "test"), seed)
    assert len(machine.gpus) == topology.npus


@pytest.mark.parametrize("faults", [[], ["0-1:0.5"], ["0-1:0", "2>3:0.1"]])
@pytest.mark.parametrize("network", ["ring:6:800Gbps:700ns", "fullyconnected:4:400Gbps,ring:3:100Gbps"])
def test_a_plan_of_links_adds_up_on_every_rank(network, faults):
    plan = plan_wiring(wiring_from(network).changed(faults_from(faults)), Collective.ALL_REDUCE, 10**6)
    for seed in range(3):
        check(export_wired(plan, "test"), seed)


def test_a_plan_through_switches_adds_up():
    check(
        export_wired(plan_wiring(wiring_from("switch:4:800Gbps,switch:2:100Gbps"), Collective.ALL_REDUCE, 10**6), "t"),
        1,
    )


def test_the_interpreter_notices_a_lost_sum():
    plan = schedule(topology_from("ring:4:800Gbps"), 10**6, scheduler="themis", chunks=2).plan
    rows = json.loads(export_plan(plan, topology_from("ring:4:800Gbps"), "t"))
    ops = rows["gpus"][2]["threadblocks"][0]["ops"]
    ops.remove(next(op for op in ops if op["name"] == "re"))
    with pytest.raises(AssertionError):
        check(json.dumps(rows), 0)


def test_what_cannot_be_written_is_refused():
    topology = topology_from("ring:4:800Gbps")
    gather = schedule(topology, 10**6, collective=Collective.ALL_GATHER)
    with pytest.raises(BadInput, match="only an all-reduce"):
        export_plan(gather.plan, topology, "t")
    large = topology_from("2D-SW_SW")
    with pytest.raises(BadInput, match="fewer chunks"):
        export_plan(schedule(large, 10**9, scheduler="themis", chunks=64).plan, large, "t")
