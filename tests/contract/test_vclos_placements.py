"""The contract of the placements that reserve links: nothing held twice, everything given back, isolated jobs share no link."""

from collections import Counter

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.core.engine import drive
from headway.core.tables.journal import journal
from headway.errors import BadInput
from headway.job_state import JobState
from headway.network.certificates.certificate import Certificate
from headway.network.certificates.issue import circuits_of, fibre_order
from headway.network.certificates.verify import verify
from headway.network.fabric.model import Fabric, Ocs
from headway.network.sharing.patterns import DEFAULT_GROUP, clean_patterns
from headway.placement.registry import find_placement
from headway.policies import MODULES as POLICIES
from headway.policies.registry import find_policy
from headway.sim.models.contention import ranks_of
from headway.sim.models.network import NetworkModel
from headway.sim.run import Setting, prepare, simulate_run
from headway.sim.world_python import SimulatedWorld
from headway.workloads.workload import workload

PLACEMENTS = ("vclos", "vclos-padded", "ocs-vclos")
LEAVES, UPLINKS = 6, 8
FULL = (1 << UPLINKS) - 1


def fabric_for(placement: str) -> Fabric:
    """Six leaves of two servers of four GPUs; below optical switches, three spines of 16 ports."""
    ocs = Ocs(UPLINKS, 2) if placement == "ocs-vclos" else None
    servers = tuple(server // 2 for server in range(2 * LEAVES))
    return Fabric("small", "leaf-spine", servers, 4, 3 if ocs else UPLINKS, ocs=ocs)


def jobs_of(seed: int, count: int = 120):
    """Sizes that span leaves more often than not, and tangle the links."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 3, 4, 6, 8, 9, 10, 12, 15, 16, 18, 20, 24, 30], count)
    return workload("tangled", np.cumsum(rng.exponential(25, count)), sizes, rng.uniform(20, 400, count))


def setting_for(placement: str, **given) -> Setting:
    return Setting(network=NetworkModel("isolated", fabric_for(placement)), **given)


def certificate_of(state, circuits, fabric: Fabric, j: int) -> Certificate:
    """The certificate of job j, which holds GPUs under a placement that reserves links."""
    order = tuple(int(gpu) for gpu in ranks_of(state, state.jobs[j]))
    masks = _held(state, j)
    if not masks:
        return Certificate(fabric, order, (), {"rule": "none"}, _promised(len(order), 0))
    if fabric.ocs:
        return _with_circuits(circuits, fabric, order, j)
    spines = [bit for bit in range(fabric.uplinks) if next(iter(masks.values())) >> bit & 1]
    links = [
        fabric.cable_name(fabric.leaf_cable(leaf, spine))
        for leaf, mask in sorted(masks.items())
        for spine in range(fabric.uplinks)
        if mask >> spine & 1
    ]
    routing = {"rule": "rank-mod", "modulus": len(spines), "spines": spines}
    return Certificate(fabric, order, tuple(links), routing, _promised(len(order), len(spines)))


def _held(state, j: int) -> dict[int, int]:
    """The bits that a job holds, by row of the ledger."""
    masks: dict[int, int] = {}
    entry = int(state.jobs[j]["link"])
    while entry >= 0:
        held = state.held_links[entry]
        masks[int(held["leaf"])] = masks.get(int(held["leaf"]), 0) | int(held["mask"])
        entry = int(held["next"])
    return masks


def _promised(ranks: int, width: int) -> tuple[str, ...]:
    return tuple(str(pattern) for pattern in clean_patterns(ranks, width, DEFAULT_GROUP))


def _with_circuits(circuits, fabric: Fabric, order: tuple[int, ...], j: int) -> Certificate:
    """Circuits as they stand, and the classes of ranks that they were reserved for."""
    held = circuits_of(fabric, circuits, j)
    fibres = fibre_order(held)
    links = [fabric.cable_name(fabric.leaf_cable(leaf, switch)) for leaf, mine in fibres.items() for switch in mine]
    ranks = Counter(int(leaf) for leaf in fabric.leaf_of_gpu[list(order)])
    ports = Counter(one.spine for one in held)
    classes = _classes(len(order), ranks, {leaf: len(mine) for leaf, mine in fibres.items()}, ports)
    routing = {"fibres": {str(leaf): mine for leaf, mine in fibres.items()}}
    if classes == 1:
        routing |= {"rule": "by-member"}
    else:
        single = all(len(mine) == classes for mine in fibres.values())
        routing |= {"rule": "rank-mod" if single else "by-class", "modulus": classes}
    # One spine is clean for any permutation.
    return Certificate(
        fabric, order, tuple(links), routing, _promised(len(order), 0 if classes == 1 else classes), held
    )


def _classes(size: int, ranks: Counter[int], fibres: dict[int, int], ports: Counter[int]) -> int:
    """The smallest number of classes that the circuits fit: every class ends on one spine, with what every leaf needs."""
    for classes in range(1, size + 1):
        each = sum(fibres.values()) // classes
        if (
            size % classes == 0
            and each * classes == sum(fibres.values())
            and all(fibres[leaf] == -(-count // classes) * classes for leaf, count in ranks.items())
            and all(count % each == 0 for count in ports.values())
        ):
            return classes
    raise AssertionError(f"circuits of no classes: {ranks}, {fibres}, {ports}")


def running(state) -> list[int]:
    """Jobs that hold GPUs."""
    return [int(j) for j in np.flatnonzero(state.jobs["seat"] >= 0)]


class Checked(SimulatedWorld):
    """A world that looks at the ledger after everything that is recorded."""

    def __init__(self, engine, world, book, fabric):
        super().__init__(engine, world, book)
        self.fabric, self.seen, self.certified = fabric, 0, 0

    def note(self, event, now):
        super().note(event, now)
        self.seen += 1
        held = np.zeros(len(self.state.leaves), np.uint64)
        for j in running(self.state):
            entry = int(self.state.jobs[j]["link"])
            while entry >= 0:
                row = self.state.held_links[entry]
                assert not held[row["leaf"]] & row["mask"], f"job {j} holds a link that another holds"
                held[row["leaf"]] |= row["mask"]
                entry = int(row["next"])
        assert (held ^ self.state.leaves["free"] == FULL).all(), "a link is neither free nor held"

    def facts(self, now):
        yield from super().facts(now)
        if self.seen % 3 == 0:
            self.certify()

    def certify(self):
        """Everything that runs verifies together, with code that shares nothing with the allocator."""
        made = [certificate_of(self.state, self.world.circuits, self.fabric, j) for j in running(self.state)]
        for verdict in verify([(str(i), one.as_json()) for i, one in enumerate(made)]):
            assert not verdict.reasons, verdict.reasons
        self.certified += sum(bool(one.links) for one in made)


def run_checked(placement: str, policy: str, seed: int, count: int, **given) -> tuple[Checked, object]:
    jobs, where = jobs_of(seed, count), cluster("12x4")
    found, setting = find_placement(placement), setting_for(placement, **given)
    engine, world = prepare(jobs, where, find_policy(policy), found, setting)
    watched = Checked(engine, world, journal(engine.state, 1 << 16, True), setting.network.fabric)
    drive(engine, watched)
    return watched, engine


@pytest.mark.parametrize("policy", ["fifo", "tiresias-l?threshold=900"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_no_link_or_circuit_is_held_twice_and_isolated_jobs_share_none(placement, policy, rounds):
    for seed in range(1, rounds(2, 40)):
        watched, engine = run_checked(placement, policy, seed, rounds(60, 400), preemption_cost=float(seed % 2) * 5)
        assert watched.certified > 20, "too few slices over several leaves: the run is too tame"
        assert (engine.state.jobs["state"] == JobState.COMPLETED).all()
        assert (engine.state.leaves["free"] == FULL).all(), "release restores the fabric"
        assert (engine.state.leaves["stopping"] == 0).all()
        assert (watched.world.circuits.ports["job"] == -1).all()
        spare = set()
        entry = int(engine.state.counts["spare_link"][0])
        while entry >= 0:
            spare.add(entry)
            entry = int(engine.state.held_links[entry]["next"])
        assert len(spare) == len(engine.state.held_links), "every entry of the ledger is spare again"


def test_circuits_move_and_their_owners_pay():
    moved = sum(
        int(run_checked("ocs-vclos", "fifo", seed, 120)[0].world.circuits.head[0]["moved"]) for seed in range(3)
    )
    assert moved > 0
    watched, engine = run_checked("ocs-vclos", "fifo", 1, 120)
    stalled = float(watched.world.clock["stalled_s"][0])
    assert stalled > 0
    ran = engine.state.jobs["total"] / engine.state.jobs["gpus"]
    late = ran - jobs_of(1, 120).duration_s
    assert late.sum() == pytest.approx(stalled, rel=1e-6)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "gandiva"])
def test_both_loops_write_the_same_journal_and_every_job_ends(policy, placement):
    jobs, where = jobs_of(5, 60), cluster("12x4")
    found_policy, found = find_policy(policy), find_placement(placement)
    setting = setting_for(placement, preemption_cost=4.0, seed=3)
    compiled = simulate_run(jobs, where, found_policy, found, setting, keep_journal=True)
    assert (compiled.jobs["state"] == JobState.COMPLETED).all()
    engine, world = prepare(jobs, where, found_policy, found, setting)
    book = journal(engine.state, 1 << 18, True)
    drive(engine, SimulatedWorld(engine, world, book))
    assert book.rows[: int(book.counts["rows"][0])].tobytes() == compiled.entries.tobytes()
    assert np.array_equal(book.seats[: int(book.counts["seats"][0])], compiled.seats)
    assert world.circuits.head[0]["moved"] == compiled.circuits_moved


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_deciding_again_changes_nothing(placement):
    jobs, where = jobs_of(8, 40), cluster("12x4")
    engine, world = prepare(jobs, where, find_policy("tiresias-l"), find_placement(placement), setting_for(placement))
    simulated = SimulatedWorld(engine, world, journal(engine.state, 1 << 16, False))
    wake = np.inf
    while (now := simulated.wait(wake)) is not None:
        for event in simulated.facts(now):
            engine.record(event, now)
        for action in engine.decide(now).actions:
            engine.record(action, now)
            for event in simulated.perform(action, now):
                engine.record(event, now)
        assert engine.decide(now).actions == ()
        wake = engine.wake_at(now)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_job_of_a_size_that_no_slice_has_is_refused(placement):
    jobs = workload("one", [0.0], [37], [10.0])
    with pytest.raises(BadInput, match=r"37 GPUs can never be isolated .* the nearest sizes that fit are 36 or"):
        prepare(jobs, cluster("12x4"), find_policy("fifo"), find_placement(placement), setting_for(placement))


def test_packing_and_isolation_do_not_go_together():
    with pytest.raises(BadInput, match="gandiva puts two jobs on one GPU"):
        prepare(jobs_of(1, 5), cluster("12x4"), find_policy("gandiva"), find_placement("vclos"), setting_for("vclos"))


@pytest.mark.parametrize("name", ["vclos", "vclos-padded"])
def test_past_its_budget_the_search_asks_the_milp(name, monkeypatch):
    """With a budget of nothing every search is undecided: the MILP answers, and is counted."""
    from headway.core.protocols import Placement
    from headway.placement import vclos

    usual = find_placement(name)  # compiled before the budget is taken away
    monkeypatch.setattr(vclos, "NODE_BUDGET", 0)
    solved = Placement(name, vclos._with_fallback.__wrapped__(name), needs_fabric=True)
    jobs, where = jobs_of(3, 25), cluster("12x4")
    run = simulate_run(jobs, where, find_policy("fifo"), solved, setting_for(name))
    assert run.undecided > 5
    assert (run.jobs["state"] == JobState.COMPLETED).all()
    searched = simulate_run(jobs, where, find_policy("fifo"), usual, setting_for(name))
    assert searched.undecided == 0
    assert run.jobs["first"][:3].tolist() == searched.jobs["first"][:3].tolist()
