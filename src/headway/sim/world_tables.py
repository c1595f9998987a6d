"""The tables of the simulated world: the truth about jobs that no manager knows, the clock, and future facts."""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import typeof
from numpy.typing import NDArray

from headway.core.compiler.tables import by_address
from headway.core.tables.state import TIMER
from headway.iteration.plans import NO_PLAN
from headway.network.sharing.links import Links, no_links
from headway.network.slices.colouring import Circuits, new_circuits
from headway.sim.models.outages import no_outages
from headway.sim.models.plan import Talk, plan_row

TRUTH: Final = np.dtype(
    [
        ("left", "f8"),  # work left as of `timed`, in seconds at rate 1
        ("timed", "f8"),
        ("stamp", "i8"),  # a fact on the heap holds while it carries the job's stamp
    ]
)
# What preemptions cost jobs.
COST: Final = np.dtype(
    [
        ("save", "f8"),  # seconds from Stop to Stopped
        ("resume", "f8"),  # seconds from Start to Started, except for the first start
        ("moved", "f8"),  # the same on other nodes than before
        ("home", "i8"),  # hash of the nodes that the job ran on last
    ]
)
# What jobs communicate (sim/models/plan.py).
TALK: Final = np.dtype(
    [
        ("volume", "f8"),  # Gbit per second of computing
        ("exchanges", "i8"),  # whether it is all-to-all
        ("usual", "f8"),  # an iteration on the fewest nodes with the baseline plan, in units of its computation
        ("here", "f8"),  # communication on the present nodes, in units of its computation
    ]
)
CLOCK: Final = np.dtype(
    [
        ("now", "f8"),
        ("wake", "f8"),  # when to decide again though nothing happens
        ("preemption_s", "f8"),  # lost to saving and resuming
        ("held_gpu_s", "f8"),
        ("stalled_s", "f8"),  # lost to moved circuits
        ("isolated", "i8"),  # starts with links of their own
        ("shared", "i8"),  # starts below several leaves without
        ("spread", "i8"),  # starts on more nodes than needed
        ("starts", "i8"),  # in all
        ("row", "i8"),  # the next action of the decision being performed, or what comes next (sim/loop.py)
        ("still", "i8"),  # rounds since time last moved on
        ("heap", "i8"),  # facts on the heap
        ("next", "i8"),  # the next job to arrive
        ("done", "i8"),  # jobs that have ended
        ("rounds", "i8"),
        ("facts", "i8"),
        ("outage", "i8"),  # the next to be recorded
        ("broken", "i8"),  # outages that have taken effect in the world
    ]
)


@by_address
class WorldTables(NamedTuple):
    """Truth by job, future facts, and the rates that follow from who shares what."""

    truth: NDArray[Any]
    costs: NDArray[Any]  # by job: rows of COST; empty if preemptions cost what the job table says, on any nodes
    apart: NDArray[np.float64]  # by job: speed on more nodes than needed; empty if that slows no job
    talks: NDArray[Any]  # by job: rows of TALK; empty if the run has no collective plan
    heap: NDArray[Any]
    speed: NDArray[np.float64]  # by model and GPUs: of elastic jobs
    together: NDArray[np.float64]  # by two models: speed of the first when packed with the second
    clock: NDArray[Any]  # one row of CLOCK
    links: Links
    circuits: Circuits
    outages: NDArray[Any]  # sim/models/outages.py
    plan: NDArray[Any]  # one row of sim/models/plan.py


Seconds = NDArray[np.float64] | float  # per job, or for all


def truth_table(duration_s: NDArray[np.float64]) -> NDArray[Any]:
    """Return a table of jobs with these durations; see TRUTH."""
    truth = np.zeros(len(duration_s), TRUTH)
    truth["left"] = duration_s
    return truth


def cost_table(jobs: int, *, save: Seconds, resume: Seconds, moved: Seconds) -> NDArray[Any]:
    """Return a table of what preemptions cost this many jobs; see COST."""
    costs = np.zeros(jobs, COST)
    costs["save"], costs["resume"], costs["moved"] = save, resume, moved
    return costs


def talk_table(talk: Talk | None) -> NDArray[Any]:
    """Return what jobs communicate; empty if the run has no collective plan."""
    talks = np.zeros(0 if talk is None else len(talk.volume), TALK)
    if talk is not None:
        talks["volume"], talks["exchanges"], talks["usual"] = talk
    return talks


def new_world(
    truth: NDArray[Any],
    seats: int,
    *,
    costs: NDArray[Any] | None = None,
    apart: NDArray[np.float64] | None = None,
    speed: NDArray[np.float64] | None = None,
    together: NDArray[np.float64] | None = None,
    links: Links | None = None,
    circuits: Circuits | None = None,
    outages: NDArray[Any] | None = None,
    plan: NDArray[Any] | None = None,
    talk: Talk | None = None,
) -> WorldTables:
    """A world of these jobs."""
    clock = np.zeros(1, CLOCK)
    clock["wake"], clock["row"] = np.inf, -1
    return WorldTables(
        truth,
        np.zeros(0, COST) if costs is None else costs,
        np.zeros(0) if apart is None else apart,
        talk_table(talk),
        np.zeros(8 * seats + 64, TIMER),
        np.ones((1, 1)) if speed is None else speed,
        np.ones((1, 1)) if together is None else together,
        clock,
        no_links() if links is None else links,
        new_circuits(None) if circuits is None else circuits,
        no_outages() if outages is None else outages,
        plan_row(NO_PLAN, None) if plan is None else plan,
    )


WORLD_TYPE = typeof(new_world(truth_table(np.ones(1)), 1))
