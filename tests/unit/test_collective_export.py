"""Plans written for MSCCL++, executed by an interpreter of their JSON that knows nothing of how they were made.

It works as the public executor does (execution_kernel.hpp): the threads of a block go through its operations each for itself and
meet only at a `nop`; a channel of an operation is served by one thread, a sum by all, each its own elements; ranks, blocks and
threads take turns at random, and a put reads its source late.
"""

import json
from collections import Counter, deque

import numpy as np
import pytest

from headway.collectives.mscclpp import export_plan, export_wired
from headway.collectives.schedulers import schedule
from headway.collectives.simulate.cost import Collective
from headway.collectives.wiring.spread import plan_wiring
from headway.collectives.wiring.text import faults_from
from headway.errors import BadInput
from headway.sim.network_files import topology_from, wiring_from

# Of the executor: execution_common.hpp.
MAX_OPERATION, MAX_CHANNEL, MAX_CHANNEL_PER_OPERATION, MAX_INPUTS, MAX_SEMAPHORES = 64, 16, 8, 10, 16
# Of a block here; each owns one element of every unit.
THREADS = MAX_CHANNEL_PER_OPERATION


class Block:
    """A thread block: its operations, where its threads are, and its own numbers of channels and buffers."""

    def __init__(self, rank: int, made: dict) -> None:
        self.rank, self.ops, self.heads = rank, made["ops"], [0] * THREADS
        self.channels = [one for channel in made["channels"] for one in channel["channel_ids"]]
        self.buffers = [one for each in made["remote_buffer_refs"] for one in each["remote_buffer_ids"]]
        assert len(self.ops) <= MAX_OPERATION
        assert max(len(self.channels), len(self.buffers)) <= MAX_CHANNEL

    def live(self) -> list[int]:
        return [thread for thread, head in enumerate(self.heads) if head < len(self.ops)]


class Machine:
    """Ranks that execute their lists, in any interleaving; a put may stay on its way for a while."""

    def __init__(self, text: str, rng: np.random.Generator) -> None:
        self.plan, self.rng = json.loads(text), rng
        self.gpus = self.plan["gpus"]
        self.buffers = []
        for gpu in self.gpus:
            data = rng.integers(0, 1000, (gpu["input_chunks"], THREADS))
            self.buffers.append({"i": data, "s": np.full((gpu["scratch_chunks"], THREADS), -(10**9))})
        self.wanted = sum(buffers["i"] for buffers in self.buffers)
        self.blocks = [Block(gpu["id"], made) for gpu in self.gpus for made in gpu["threadblocks"]]
        self.semaphores = {
            (gpu["id"], n): one["init_value"] for gpu in self.gpus for n, one in enumerate(gpu["semaphores"])
        }
        self.links: dict[tuple[int, int], deque] = {}
        self.arrived: Counter[tuple[int, int]] = Counter()
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
        """One turn after the other; a turn is a thread's next operation, or a message that lands."""
        while any(block.live() for block in self.blocks) or any(self.links.values()):
            moved = self._land()
            awake = [block for block in self.blocks if not self._asleep(block)]
            for place in self.rng.permutation(len(awake)).tolist():
                live = awake[place].live()
                # Some threads lag behind for long.
                for thread in self.rng.permutation(live)[: int(self.rng.integers(1, THREADS + 1))].tolist():
                    while self._step(awake[place], thread):
                        moved = True
                        if self.rng.random() < 0.5:
                            break
            assert moved or self._any(), "every rank waits"

    def _any(self) -> bool:
        """Whether anything can move at all, when chance had nothing move."""
        return self._land(1.0) or any(self._step(block, thread) for block in self.blocks for thread in block.live())

    def _asleep(self, block: Block) -> bool:
        """Done, or before a semaphore that is not free; looked at for speed only."""
        first = block.ops[0]
        before = block.heads[0] == 0 and first["name"] == "sem_acquire"
        return not block.live() or (before and not self.semaphores[block.rank, first["semaphore_ids"][0]])

    def _step(self, block: Block, thread: int) -> bool:
        """A thread's next operation; False if it must wait."""
        at = block.heads[thread]
        if at == len(block.ops):
            return False
        op = block.ops[at]
        if op["name"] == "nop":
            if min(block.heads) < at:
                return False
            block.heads = [max(head, at + 1) for head in block.heads]
            return True
        if not self._done(block, thread, op):
            return False
        block.heads[thread] += 1
        return True

    def _done(self, block: Block, thread: int, op: dict) -> bool:
        name, rank = op["name"], block.rank
        if name == "re":
            assert len(op["src_buff"]) <= MAX_INPUTS
            mine, ((target,), inputs) = self.buffers[rank], (op["dst_buff"], op["src_buff"])
            mine[target["type"]][span(target), thread] = sum(mine[one["type"]][span(one), thread] for one in inputs)
            return True
        if name in ("sem_acquire", "sem_release"):
            return self._counted(rank, op["semaphore_ids"], thread, name == "sem_acquire")
        local = op["channel_ids"]
        assert len(local) == len(set(local)) <= MAX_CHANNEL_PER_OPERATION
        if thread >= len(local) or name == "flush":
            return True
        channel = block.channels[local[thread]]
        if name == "wait":
            ready = self.arrived[rank, channel] > 0
            self.arrived[rank, channel] -= ready
            return ready
        peer, there = self.ends[rank, channel]
        sent = None
        if name == "pws":
            source, target = op["src_buff"][thread], op["dst_buff"][thread]
            remote = self.gpus[rank]["remote_buffers"][block.buffers[target["buffer_id"]]]
            assert (remote["rank"], source["size"]) == (peer, target["size"])
            # A proxy reads the source later: what is there when the data lands is what arrives.
            sent = rank, source, remote["type"], target
        else:
            assert name == "signal"
        self.links.setdefault((peer, there), deque()).append(sent)
        return True

    def _counted(self, rank: int, numbers: list[int], thread: int, acquires: bool) -> bool:
        assert len(numbers) <= MAX_SEMAPHORES
        for number in numbers[thread::THREADS]:
            if acquires and not self.semaphores[rank, number]:
                return False
            self.semaphores[rank, number] += -1 if acquires else 1
        return True

    def _land(self, share: float = 0.5) -> bool:
        """Some of what is under way arrives, on each channel in order."""
        moved = False
        for key, queue in self.links.items():
            if queue and self.rng.random() < share:
                moved, sent = True, queue.popleft()
                if sent is not None:
                    rank, source, kind, target = sent
                    self.buffers[key[0]][kind][span(target)] = self.buffers[rank][source["type"]][span(source)]
                self.arrived[key] += 1
        return moved


def span(buffer: dict) -> slice:
    return slice(buffer["index"], buffer["index"] + buffer["size"])


def check(text: str, seed: int) -> Machine:
    machine = Machine(text, np.random.default_rng(seed))
    machine.run()
    for buffers in machine.buffers:
        assert (buffers["i"] == machine.wanted).all()
    # Nothing is left over that a second run would stumble over.
    assert not any(machine.arrived.values())
    assert not any(machine.semaphores.values())
    return machine


@pytest.mark.parametrize("scheduler", ["baseline", "themis", "best"])
@pytest.mark.parametrize(
    "network", ["switch:4:800Gbps:700ns,ring:2:400Gbps:0ns", "ring:2:100Gbps,switch:3:800Gbps,ring:2:50Gbps"]
)
def test_a_plan_of_dimensions_adds_up_on_every_rank(scheduler, network):
    topology = topology_from(network)
    outcome = schedule(topology, 10**7, scheduler=scheduler, chunks=6)
    machine = check(export_plan(outcome.plan, topology, "test"), 1)
    assert len(machine.gpus) == topology.npus


@pytest.mark.parametrize("faults", [[], ["0-1:0.5"], ["0-1:0", "2>3:0.1"]])
@pytest.mark.parametrize("network", ["ring:6:800Gbps:700ns", "fullyconnected:4:400Gbps,ring:3:100Gbps"])
def test_a_plan_of_links_adds_up_on_every_rank(network, faults):
    plan = plan_wiring(wiring_from(network).changed(faults_from(faults)), Collective.ALL_REDUCE, 10**6, chunks=1)
    check(export_wired(plan, "test"), 1)


def test_a_plan_through_switches_adds_up():
    wiring = wiring_from("switch:4:800Gbps,switch:2:100Gbps")
    check(export_wired(plan_wiring(wiring, Collective.ALL_REDUCE, 10**6, chunks=1), "t"), 1)
    with pytest.raises(BadInput, match=r"thread blocks of 64 operations.*fewer chunks \(--chunks\)"):
        export_wired(plan_wiring(wiring, Collective.ALL_REDUCE, 10**6), "t")


def test_the_interpreter_notices_a_lost_sum():
    plan = schedule(topology_from("ring:4:800Gbps"), 10**6, scheduler="themis", chunks=2).plan
    rows = json.loads(export_plan(plan, topology_from("ring:4:800Gbps"), "t"))
    ops = rows["gpus"][2]["threadblocks"][0]["ops"]
    ops.remove(next(op for op in ops if op["name"] == "re"))
    with pytest.raises(AssertionError):
        check(json.dumps(rows), 0)


def test_the_interpreter_notices_threads_that_do_not_meet():
    """Without the synchronisation between a wait and a sum, some thread adds what has not come."""
    topology = topology_from("ring:4:800Gbps")
    rows = json.loads(export_plan(schedule(topology, 10**6, scheduler="themis", chunks=2).plan, topology, "t"))
    for gpu in rows["gpus"]:
        for block in gpu["threadblocks"]:
            block["ops"] = [op for op in block["ops"] if op["name"] != "nop"]
    with pytest.raises(AssertionError):
        check(json.dumps(rows), 0)


@pytest.mark.parametrize(
    ("network", "chunks"),
    [("switch:8:3600Gbps", 64), ("switch:4:800Gbps,ring:3:400Gbps", 24), ("switch:20:800Gbps", 2)],
)
def test_long_lists_are_cut_into_thread_blocks_that_the_executor_can_hold(network, chunks):
    """It refuses more than 64 operations in one, and has room for 16 channels and 16 remote buffers: the machine here asserts that.
    Once all of a rank's list was one thread block, which no 8 ranks could load."""
    topology = topology_from(network)
    plan = schedule(topology, 10**8, scheduler="themis", chunks=chunks).plan
    machine = check(export_plan(plan, topology, "t"), 3)
    assert len(machine.gpus[0]["threadblocks"]) > 1


def test_the_file_says_which_sizes_the_executor_will_take():
    """A whole number of 16 bytes in every unit, and offsets of 32 bits."""
    topology = topology_from("switch:8:3600Gbps,ring:2:400Gbps")
    outcome = schedule(topology, 10**8, chunks=64)
    assert len({chunk.bytes for chunk in outcome.plan.chunks}) > 2
    rows = json.loads(export_plan(outcome.plan, topology, "t"))
    units = rows["gpus"][0]["input_chunks"]
    assert units.bit_count() == 1
    assert rows["min_message_size"] == 16 * units
    longest = max(units, *(gpu["scratch_chunks"] for gpu in rows["gpus"]))
    assert rows["max_message_size"] % (16 * units) == 0
    assert 2**31 < rows["max_message_size"] // units * longest < 2**32


def test_what_cannot_be_written_is_refused():
    topology = topology_from("ring:4:800Gbps")
    gather = schedule(topology, 10**6, collective=Collective.ALL_GATHER)
    with pytest.raises(BadInput, match="only an all-reduce"):
        export_plan(gather.plan, topology, "t")
    large = topology_from("2D-SW_SW")
    with pytest.raises(BadInput, match="fewer chunks"):
        export_plan(schedule(large, 10**9, scheduler="themis", chunks=64).plan, large, "t")
    with pytest.raises(BadInput, match=r"thread blocks of 64 operations.*fewer chunks"):
        export_plan(schedule(topology, 10**8, scheduler="themis", chunks=1000).plan, topology, "t")
