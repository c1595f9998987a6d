"""Simulate: a workload on a cluster under a policy and a placement, from the first arrival to the last end."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster
from headway.core.compiler.mistakes import explained
from headway.core.engine import Engine
from headway.core.operations import admit
from headway.core.protocols import Placement, Policy
from headway.core.tables.journal import Journal, empty
from headway.core.tables.state import new_state
from headway.errors import BadInput, HeadwayError
from headway.network.sharing.links import Links
from headway.network.slices.colouring import new_circuits
from headway.sim.loop import FINISHED, JOURNAL_FULL, STUCK, drive_compiled, new_buffers
from headway.sim.models import communication, profiles
from headway.sim.models.contention import shared_links
from headway.sim.models.loss_curves import LossCurves
from headway.sim.models.network import IDEAL, Network, ledger_of, never_isolated, why_never
from headway.sim.models.outages import outages
from headway.sim.world import World, new_world, truth_table
from headway.workloads.workload import Workload

JOURNAL_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Setting:
    """How the simulated world behaves: what a preemption costs, what spreading a job does to it, how jobs share the network."""

    preemption_cost: float | None = 0.0  # seconds; None: by model
    slowdown: bool = False  # by model
    min_runtime: float = 0.0
    seed: int = 0
    network: Network = IDEAL


class Kept(NamedTuple):
    """A journal that was kept, as described at core/tables/journal.py."""

    entries: NDArray[Any]
    seats: NDArray[np.int32]
    places: NDArray[Any]
    links: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Run:
    """A finished simulation: the job table at the end, the journal where it was kept, and the counts."""

    workload: Workload
    cluster: Cluster
    policy: Policy
    placement: Placement
    setting: Setting
    jobs: NDArray[Any]
    journal: Kept  # empty unless the journal was kept
    events: int
    decisions: int
    preemption_cost_s: float
    held_gpu_s: float
    wall_s: float
    circuits_moved: int = 0
    undecided: int = 0  # searches for links that ran out of their budget and were left to the MILP

    @property
    def entries(self) -> NDArray[Any]:
        """The entries of the journal."""
        return self.journal.entries

    @property
    def seats(self) -> NDArray[np.int32]:
        """The seats of its Start and Pack entries."""
        return self.journal.seats


def _links(workload: Workload, setting: Setting, slots: int) -> Links | None:
    """The links that jobs share, where the network has any."""
    network = setting.network
    if network.fabric is None or not network.sharing.is_shared:
        return None
    traffic = communication.draw(workload, setting.seed)
    return shared_links(network.sharing, network.fabric, traffic, workload.duration_s, slots, setting.seed)


def prepare(
    workload: Workload, cluster: Cluster, policy: Policy, placement: Placement, setting: Setting
) -> tuple[Engine, World]:
    """The engine with its jobs in the table, and the world that knows the truth about them."""
    fabric = setting.network.fabric
    never = never_isolated(workload.gpus, fabric, placement)
    if fabric and never.any():
        raise BadInput(why_never(int(workload.gpus[never.argmax()]), fabric, placement))
    if placement.needs_fabric and policy.packs:
        raise BadInput(
            f"policy {policy.name} puts two jobs on one GPU, where they would share links: {placement.name} cannot isolate them"
        )
    n, gpus = len(workload), np.array(cluster.gpus)
    slots = 2 if policy.packs else 1
    state = new_state(n, gpus, slots=slots, models=len(profiles.TABLE), **ledger_of(fabric, placement))
    options = policy.options(
        n,
        setting.min_runtime,
        by_class=placement.by_class,
        pack_limit=placement.pack_limit,
        models=len(profiles.TABLE) if policy.packs else 1,
        seed=setting.seed,
    )
    rows = profiles.rows_of(workload.model)
    admit(
        state,
        slice(None),
        submit=workload.submit_s,
        gpus=workload.gpus,
        model=rows,
        skew=profiles.column("skew")[rows],
        left=workload.duration_s if policy.oracle else np.nan,
        min_runtime=np.where(workload.preemptible, 0.0, np.inf),
    )
    apart = np.minimum(profiles.column("apart")[rows], 1.0) if setting.slowdown else 1.0
    world = new_world(
        truth_table(workload.duration_s, *_costs(rows, workload.gpus, setting.preemption_cost), apart),
        int(gpus.sum()) * slots,
        speed=profiles.speeds(cluster.total) if policy.allot else None,
        together=profiles.pair_speeds() if policy.packs else None,
        links=_links(workload, setting, slots),
        circuits=new_circuits(fabric if placement.rewires else None),
        outages=outages(fabric, setting.network.sharing.failed),
    )
    if policy.allot is not None:
        policy = _bind(policy, workload, placement, setting, cluster.total)
    return Engine(state, options, policy, placement), world


def _costs(rows: NDArray[np.int32], workers: NDArray[np.int32], cost: float | None) -> tuple[Any, Any]:
    """Seconds to save and to resume, by job."""
    if cost is not None:
        return cost, 0.0
    return profiles.column("save_s")[rows], profiles.resume_s(rows, workers)


def _bind(policy: Policy, workload: Workload, placement: Placement, setting: Setting, total: int) -> Policy:
    """Give an elastic policy the loss curves that the jobs report, and how models scale; sizes that no slice has are rounded down."""
    make: Any = policy.allot
    curves = LossCurves(workload.duration_s, setting.seed)
    sizes = np.arange(total + 1, dtype=np.int32)
    never = never_isolated(sizes, setting.network.fabric, placement)
    fits = np.maximum.accumulate(np.where(never, 0, sizes))
    return replace(policy, allot=make(len(workload), policy.quantum, curves.reported, profiles.column("scaling"), fits))


def simulate_run(
    workload: Workload,
    cluster: Cluster,
    policy: Policy,
    placement: Placement,
    setting: Setting | None = None,
    *,
    keep_journal: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Run to the end. `progress(ended, all)` is called now and then."""
    setting = setting or Setting()
    engine, world = prepare(workload, cluster, policy, placement, setting)
    buffers = new_buffers(engine.state, JOURNAL_ROWS, keep_journal)
    kept = [Kept(*(part[:0] for part in buffers.journal[:4]))]
    began, noted = perf_counter(), 0
    while True:
        with explained():
            ended = drive_compiled(
                engine.state, engine.options, engine.key, engine.change, engine.place, engine.allot, world, buffers
            )
        n = int(buffers.journal.counts["rows"][0])
        if keep_journal:
            kept.append(_kept(buffers.journal, kept))
        noted += n
        empty(buffers.journal)
        if progress:
            progress(int(world.clock["done"][0]), len(workload))
        if ended != JOURNAL_FULL:
            break
    if ended != FINISHED:
        raise _unfinished(ended, engine, world)
    clock = world.clock[0]
    return Run(
        workload,
        cluster,
        policy,
        placement,
        setting,
        engine.state.jobs,
        Kept(*map(np.concatenate, zip(*kept, strict=True))),
        noted,
        int(clock["rounds"]),
        float(clock["preemption_s"]),
        float(clock["held_gpu_s"]),
        perf_counter() - began,
        int(world.circuits.head[0]["moved"]),
        int(buffers.out.counts["undecided"][0]),
    )


def _kept(journal: Journal, before: list[Kept]) -> Kept:
    """A copy of what the buffer holds; its entries count places from the first buffer on."""
    count = journal.counts[0]
    part = Kept(*(getattr(journal, pool)[: count[pool]].copy() for pool in ("rows", "seats", "places", "links")))
    for name, pool in (("seat_at", "seats"), ("place_at", "places"), ("link_at", "links")):
        part.entries[name] += sum(len(getattr(one, pool)) for one in before)
    return part


def _unfinished(why: int, engine: Engine, world: World) -> HeadwayError:
    left = len(engine.state.jobs) - int(world.clock["done"][0])
    if why == STUCK:
        return BadInput(
            f"{left} jobs can never start under this placement: nothing runs, nothing will end, and they find no place"
        )
    return HeadwayError(
        f"time stands still at {world.clock['now'][0]} s: the policy's change() keeps asking to be called at once"
    )
