"""Simulate: a workload on a cluster under a policy and a placement, from the first arrival to the last end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.cluster.demands import Demands
from headway.cluster.groups import groups_of
from headway.cluster.nodes import Cluster
from headway.cluster.queues import Queues, refuse_teams, seat_in_teams
from headway.core.classes import ClassSizes
from headway.core.compiler.mistakes import explained
from headway.core.engine import NO_PROGRESS, Engine, Event
from headway.core.events import START, SUBMITTED
from headway.core.keys import AUTO_MULTIPLE
from headway.core.operations import admit
from headway.core.protocols import Placement, Policy
from headway.core.receipts import final_receipts_us
from headway.core.tables.journal import JournalTable, empty
from headway.core.tables.options import NO_DEMANDS
from headway.core.tables.state import State, new_state
from headway.core.tables.teams import NO_TEAMS, Team
from headway.errors import BadInput, HeadwayError
from headway.io.units import counted
from headway.iteration.plans import NO_PLAN
from headway.network.sharing.links import Links
from headway.network.slices.colouring import new_circuits
from headway.network.slices.sizes import why_never
from headway.sim.loop import FINISHED, JOURNAL_FULL, STUCK, drive_compiled, new_buffers
from headway.sim.models import communication, profiles
from headway.sim.models.communication import Traffic
from headway.sim.models.contention import Holders, shared_links
from headway.sim.models.loss_curves import LossCurves
from headway.sim.models.network import IDEAL, NetworkModel, ledger_of, never_isolated
from headway.sim.models.outages import outages
from headway.sim.models.plan import plan_row, spread_speed, talk_of, waits_of
from headway.sim.world_tables import Seconds, WorldTables, cost_table, new_world, truth_table
from headway.workloads.workload import Workload

JOURNAL_ROWS = 1 << 14


@dataclass(frozen=True, slots=True)
class Setting:
    """How the simulated world behaves: what a preemption costs, what spreading a job does to it, how jobs share the network."""

    preemption_cost: float | None = 0.0  # seconds; None: by model (or in the policy's own way)
    slowdown: bool = False  # by model
    min_runtime: float | None = 0.0  # seconds; None: by what stopping and starting again costs the job
    queue_min_runtime: Mapping[str, float | None] = field(default_factory=dict)  # the same, of jobs in these queues
    progress_reports: float = 0.0  # share of jobs that report the work left
    progress_error: float = 1.0  # the factor by which reports may be wrong
    seed: int = 0
    queues: Queues | None = None  # None: all jobs are alike
    demands: Demands | None = None  # None: all nodes suit all jobs
    network: NetworkModel = IDEAL
    plan: int = NO_PLAN  # of collectives, for all jobs


START_KINDS = ("starts", "isolated", "shared", "spread")


class Kept(NamedTuple):
    """A journal that was kept, as described at core/tables/journal.py."""

    entries: NDArray[Any]
    seats: NDArray[np.int32]
    places: NDArray[Any]
    links: NDArray[Any]


@dataclass(frozen=True, slots=True)
class TeamsOfRun:
    """The queues of a run, the table of teams at its end, and for each job the row of its queue."""

    queues: Queues
    table: NDArray[Any]
    queue: NDArray[np.int64]

    def name_of(self, row: int) -> str:
        """The queue of a row, also of one that stands for a user."""
        row = int(self.table["parent"][row]) if self.table["of_user"][row] else row
        return self.queues.queues[row - 1].name


@dataclass(frozen=True, slots=True)
class Run:
    """A finished simulation: the job table at the end, the journal where it was kept, and the counts."""

    workload: Workload
    cluster: Cluster
    policy: Policy
    placement: Placement
    setting: Setting
    jobs: NDArray[Any]
    receipts_us: NDArray[np.int64]  # by job and reason (core/events.py: REASONS), summing to its JCT
    journal: Kept  # empty unless the journal was kept
    events: int
    decisions: int
    preemption_cost_s: float
    held_gpu_s: float
    wall_s: float
    teams: TeamsOfRun | None = None  # None: without queues
    starts: Mapping[str, int] = field(default_factory=dict)  # by kind of place: see START_KINDS
    circuits_moved: int = 0
    undecided: int = 0  # searches for links that ran out of their budget and were left to the MILP

    @property
    def class_sizes(self) -> ClassSizes:
        """Return what the numbers of classes in the journal depend on."""
        teams = len(self.teams.table) if self.teams else NO_TEAMS
        demands = len(self.setting.demands.suits) if self.setting.demands else NO_DEMANDS
        return ClassSizes(self.placement.pack_limit, class_models(self.policy), teams, demands)

    @property
    def entries(self) -> NDArray[Any]:
        """The entries of the journal."""
        return self.journal.entries

    @property
    def seats(self) -> NDArray[np.int32]:
        """The seats of its Start and Pack entries."""
        return self.journal.seats


def _links(workload: Workload, setting: Setting, traffic: Traffic, holders: Holders) -> Links | None:
    """The links that jobs share, where the network has any."""
    network = setting.network
    if network.fabric is None or not network.sharing.is_shared:
        return None
    return shared_links(network.sharing, network.fabric, traffic, workload.duration_s, setting.seed, holders)


def prepare(
    workload: Workload, cluster: Cluster, policy: Policy, placement: Placement, setting: Setting
) -> tuple[Engine, WorldTables]:
    """The engine with its jobs in the table, and the world that knows the truth about them."""
    fabric = setting.network.fabric
    never = never_isolated(workload.gpus, fabric, placement)
    if fabric and never.any():
        raise BadInput(why_never(fabric, placement.name, int(workload.gpus[never.argmax()])))
    if (placement.needs_fabric or (placement.shares and fabric)) and policy.packs:
        raise BadInput(
            f"policy {policy.name} puts two jobs on one GPU, where they would share links: {placement.name} cannot isolate them"
        )
    if setting.plan != NO_PLAN and policy.allot is not None:
        raise BadInput(
            f"policy {policy.name} changes the sizes of jobs by measured curves, which contain their communication: use --collective none"
        )
    if setting.demands is not None and policy.allot is not None:
        raise BadInput(
            f"policy {policy.name} changes the sizes of jobs, and these jobs ask for some of the nodes, which it knows nothing about"
        )
    n, gpus = len(workload), np.array(cluster.gpus)
    slots = 2 if policy.packs else 1
    teams, team = _teams(workload, cluster, policy, setting)
    booked = setting.queues.booked(cluster.nodes, dated=False) if setting.queues else None
    state = new_state(
        n,
        gpus,
        slots=slots,
        models=len(profiles.TABLE),
        teams=teams,
        bookings=booked,
        suits=setting.demands.suits if setting.demands else None,
        per_node=setting.demands.per_node if setting.demands else None,
        **ledger_of(fabric, placement),
    )
    group, groups = _groups(workload, policy)
    options = policy.options(
        n,
        groups,
        by_class=placement.by_class,
        pack_limit=placement.pack_limit,
        node_order=placement.node_order,
        models=class_models(policy),
        teams=len(state.teams),
        demands=len(state.suits),
        seed=setting.seed,
    )
    options = options._replace(**setting.queues.options) if setting.queues else options
    if setting.demands and placement.needs_fabric:
        _refuse_nodes(workload.gpus, setting.demands, options, policy, placement, ledger_of(fabric, placement), gpus)
    rows = profiles.rows_of(workload.model)
    save, resume, moved = _costs(rows, workload.gpus, policy, setting.preemption_cost)
    apart = np.minimum(profiles.column("apart")[rows], 1.0) if setting.slowdown else None
    talks = setting.network.sharing.is_shared or setting.plan != NO_PLAN
    traffic = communication.draw(workload, setting.seed) if talks else communication.silence(n)
    row, talk = plan_row(setting.plan, fabric), None
    duty = traffic.duty if setting.network.sharing.is_shared else communication.silence(n).duty
    if setting.plan != NO_PLAN:
        talk = talk_of(workload, traffic, state.fewest[0], row)
        duty = duty * (1.0 - 1.0 / talk.usual) / np.maximum(traffic.duty, 1e-9)
    expected: Seconds = 1.0 if apart is None else apart
    if talk is not None:
        expected = np.minimum(expected, spread_speed(workload.gpus, state.fewest[0], talk, row))
    waits = waits_of(placement, duty, expected)
    left = _known_left(workload, policy, setting)
    turns = _turns(workload, policy, setting, np.isnan(left))
    admit(
        state,
        slice(None),
        submit=workload.submit_s,
        gpus=workload.gpus,
        model=rows,
        skew=profiles.column("skew")[rows],
        slice_wait=waits.slices,
        whole_wait=waits.whole,
        left=left,
        min_runtime=turns["min_runtime"],
        turns=turns["turns"],
        save=save,
        resume=resume,
        limit=_limits(workload, policy),
        team=team,
        demand=setting.demands.rows if setting.demands else 0,
        group=group,
    )
    world = new_world(
        truth_table(workload.duration_s),
        int(gpus.sum()) * slots,
        costs=None if moved is None else cost_table(n, save=save, resume=resume, moved=moved),
        apart=apart,
        speed=profiles.speeds(cluster.total) if policy.allot else None,
        together=profiles.pair_speeds() if policy.packs else None,
        links=_links(workload, setting, traffic, Holders(slots, placement.shares)),
        circuits=new_circuits(fabric if placement.rewires else None),
        outages=outages(fabric, setting.network.sharing.failed),
        plan=row,
        talk=talk,
    )
    if policy.allot is not None:
        policy = _bind(policy, workload, placement, setting, cluster.total)
    return Engine(state, options, policy, placement), world


def _refuse_nodes(
    sizes: NDArray[np.int32],
    demands: Demands,
    options: Any,
    policy: Policy,
    placement: Placement,
    ledger: dict[str, Any],
    gpus: NDArray[Any],
) -> None:
    """Refuse jobs with given nodes that a placement with links of their own never places: each is tried on empty nodes."""
    for row, size in dict.fromkeys(zip(demands.rows.tolist(), sizes.tolist(), strict=True)):
        each = int(demands.per_node[row])
        if not each:
            continue
        state = new_state(1, gpus, suits=demands.suits, per_node=demands.per_node, **ledger)
        admit(state, 0, submit=0.0, gpus=size, demand=row)
        engine = Engine(state, options._replace(teams=NO_TEAMS, learns=False), policy, placement)
        engine.record(Event(SUBMITTED, 0), 0.0)
        if not any(action.kind == START for action in engine.decide(0.0).actions):
            nodes = f"{counted(size // each, 'node')} with {counted(each, 'GPU')} each"
            raise BadInput(
                f"placement {placement.name} does not place {nodes}: ask for whole nodes, or leave out the nodes"
            )


def _teams(
    workload: Workload, cluster: Cluster, policy: Policy, setting: Setting
) -> tuple[Sequence[Team], NDArray[np.int32]]:
    """The teams of a run, and the row of each job among them."""
    if setting.queues is None:
        return (), np.zeros(len(workload), np.int32)
    refuse_teams(policy)
    setting.queues.check_size(cluster.total, cluster.name)
    teams, rows, _ = seat_in_teams(setting.queues, workload.queue, workload.user, workload.name)
    return teams, rows


def _groups(workload: Workload, policy: Policy) -> tuple[NDArray[np.int32], int]:
    """The row of each job in the table of groups that the policy learns about, and how many rows there are."""
    known = {"user": workload.user, "name": workload.title, "model": workload.model, "queue": workload.queue}
    return groups_of(policy.group, {**known, "gpus": workload.gpus})


def class_models(policy: Policy) -> int:
    """How many models tell jobs of one size apart: those that two jobs on one GPU may have, or all are alike."""
    return len(profiles.TABLE) if policy.packs else 1


def _limits(workload: Workload, policy: Policy) -> NDArray[np.float64]:
    """The time limit of each job: the one of the trace, or a multiple of what the job takes, as people ask for too much."""
    if policy.requested == np.inf:
        return workload.limit_s
    return np.where(np.isfinite(workload.limit_s), workload.limit_s, workload.duration_s * policy.requested)


def _costs(
    rows: NDArray[np.int32], workers: NDArray[np.int32], policy: Policy, cost: float | None
) -> tuple[Seconds, Seconds, Seconds | None]:
    """Return the seconds to save, to resume, and to resume on other nodes (None: the same as to resume)."""
    save: Seconds = profiles.column("save_s")[rows] if cost is None else cost
    resume: Seconds = profiles.resume_s(rows, workers) if cost is None else 0.0
    if policy.suspends is None or cost == 0.0:
        return save, resume, None
    # Suspended in the memory of its nodes; elsewhere it needs a checkpoint after all.
    return policy.suspends / 2, policy.suspends / 2, save + resume


def _known_left(workload: Workload, policy: Policy, setting: Setting) -> Seconds:
    """Return the work left as far as the policy knows: all of it under an oracle, otherwise what jobs report; NaN: not known."""
    if policy.oracle:
        return workload.duration_s
    if not policy.reports or setting.progress_reports == 0.0:
        return np.nan
    drawn = np.random.default_rng([setting.seed, 4]).random((2, len(workload)))
    wrong = setting.progress_error ** (2 * drawn[1] - 1)
    return np.where(drawn[0] < setting.progress_reports, workload.duration_s * wrong, np.nan)


def _turns(
    workload: Workload, policy: Policy, setting: Setting, silent: NDArray[np.bool_]
) -> dict[str, NDArray[np.float64]]:
    """Return the minimum run times: by queue, and infinity if a job is non-preemptible."""
    min_runtime = np.asarray(np.nan if setting.min_runtime is None else setting.min_runtime)
    for queue, seconds in setting.queue_min_runtime.items():
        min_runtime = np.where(workload.queue == queue, np.nan if seconds is None else seconds, min_runtime)
    by_cost = np.isnan(min_runtime)
    least = np.where(silent & (setting.preemption_cost != 0.0), policy.auto_min_runtime, 0.0)
    return {
        "min_runtime": np.where(workload.preemptible, np.where(by_cost, least, min_runtime), np.inf),
        "turns": np.where(by_cost, AUTO_MULTIPLE, 0.0),
    }


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
    buffers = new_buffers(engine, JOURNAL_ROWS, keep_journal)
    kept = [Kept(*(part[:0] for part in buffers.journal[:4]))]
    began, noted = perf_counter(), 0
    while True:
        with explained():
            ended = drive_compiled(*engine.parts, world, buffers)
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
    state, clock = engine.state, world.clock[0].copy()
    circuits_moved, undecided = int(world.circuits.head[0]["moved"]), int(engine.out.counts["undecided"][0])
    del engine, world, buffers  # with a million jobs, a fifth of the memory
    return Run(
        workload,
        cluster,
        policy,
        placement,
        setting,
        state.jobs,
        final_receipts_us(state.jobs, state.receipts),
        Kept(*map(np.concatenate, zip(*kept, strict=True))),
        noted,
        int(clock["rounds"]),
        float(clock["preemption_s"]),
        float(clock["held_gpu_s"]),
        perf_counter() - began,
        _teams_of(setting, state),
        {kind: int(clock[kind]) for kind in START_KINDS},
        circuits_moved,
        undecided,
    )


def _teams_of(setting: Setting, state: State) -> TeamsOfRun | None:
    """Return the teams at the end of a run; None: there are no queues."""
    if setting.queues is None:
        return None
    rows = np.arange(len(state.teams))
    queue_of = np.where(state.teams["of_user"] == 1, state.teams["parent"], rows)
    return TeamsOfRun(setting.queues, state.teams, queue_of[state.jobs["team"]])


def _kept(journal: JournalTable, before: list[Kept]) -> Kept:
    """A copy of what the buffer holds; its entries count places from the first buffer on."""
    count = journal.counts[0]
    part = Kept(*(getattr(journal, pool)[: count[pool]].copy() for pool in ("rows", "seats", "places", "links")))
    for name, pool in (("seat_at", "seats"), ("place_at", "places"), ("link_at", "links")):
        part.entries[name] += sum(len(getattr(one, pool)) for one in before)
    return part


def _unfinished(why: int, engine: Engine, world: WorldTables) -> HeadwayError:
    unfinished = len(engine.state.jobs) - int(world.clock["done"][0])
    if why == STUCK:
        return BadInput(
            f"{counted(unfinished, 'job')} can never start under this placement: nothing runs, nothing will end, and no place is found"
        )
    return HeadwayError(NO_PROGRESS)
