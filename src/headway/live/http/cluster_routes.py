"""Routes about the cluster as a whole: nodes, status, metrics in Prometheus' text format, and the workload for a replay."""

import math
from dataclasses import replace
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, Field

from headway.client.job import HISTORY_FIELDS, JobQuery, JobView
from headway.cluster.nodes import Cluster
from headway.job_state import JobState
from headway.live.http.access import ABOUT_A_JOB, REFUSALS, Moment, Operator, Reader, States, User, all_but, own_jobs
from headway.live.http.metrics import CONTENT_TYPE, prometheus_text
from headway.live.http.server.liveness import Liveness
from headway.live.manager.manager import Manager
from headway.live.measures import folded
from headway.live.queries.health import ManagerHealth
from headway.live.queries.queues import QueueView, queue_views
from headway.live.queries.replay.replay import PastJob
from headway.live.queries.views import NodeView
from headway.live.state.cluster import ClusterState

NodeName = Annotated[str, Path(max_length=256, description="A node's name, as in the list of nodes.")]
MOST_HISTORY = 100_000  # rows of one answer


class Nodes(BaseModel):
    """The nodes in their order."""

    nodes: list[NodeView]


class TeamQueues(BaseModel):
    """The queues, each followed by those below it."""

    queues: list[QueueView]


class Reservation(BaseModel):
    """Nodes kept for a queue, and those below it, for a time; seconds since 1970."""

    nodes: list[Annotated[str, Field(max_length=256)]] = Field(min_length=1, max_length=10_000)
    queue: str = Field(max_length=256)
    begin: float = Field(alias="from", ge=0, le=1e12, allow_inf_nan=False)
    end: float = Field(alias="to", ge=0, le=1e12, allow_inf_nan=False)


class Reservations(BaseModel):
    """The reservations of nodes that are not over: those of the queues file, and those that people asked for since."""

    reservations: list[Reservation]


class Health(BaseModel):
    """Whether the manager can do its work; if not, why."""

    ok: bool
    detail: str = ""


class Status(BaseModel):
    """The manager's policy and placement, its cluster (names of nodes, and the GPUs of each), jobs by state, and what is wrong."""

    policy: str
    placement: str
    cluster: Cluster
    counts: dict[str, int]
    trouble: str


class PastWork(Status):
    """The same, with what ran."""

    now: float
    jobs: list[PastJob]
    late: list[tuple[float, float]] = Field(
        description="Times (from, to) in which nothing was decided: the engine was late, or no manager ran."
    )


class History(BaseModel):
    """Jobs with their times, nodes, waits and GPU-hours, the newest first."""

    jobs: list[JobView]


def add_routes(api: FastAPI, manager: Manager) -> None:
    """Add routes for health, nodes, status, metrics and the workload."""

    liveness = Liveness(manager)

    failing: dict[int | str, dict[str, Any]] = {503: {"model": Health, "description": "The journal cannot be written."}}

    @api.get("/healthz", tags=["cluster"], responses=failing, response_model_exclude_defaults=True)
    async def health(response: Response) -> Health:
        """Return whether the manager works: it answers, and its journal can be written. No token is needed."""
        trouble = await liveness.trouble()
        response.status_code = 503 if trouble else 200
        return Health(ok=not trouble, detail=trouble)

    @api.get("/v1/nodes", tags=["cluster"], responses=REFUSALS)
    def nodes(caller: Reader) -> Nodes:
        """Return the nodes, with the free GPUs of each. Callers that do not operate see only their own jobs."""
        views = manager.nodes()
        if not caller.operates:
            active = frozenset(state.name for state in JobState if state.has_processes)
            own_numbers = {job.job_id for job in manager.jobs(JobQuery(user=caller.user, states=active))}
            views = [
                replace(node, jobs=tuple(number for number in node.jobs if number in own_numbers)) for node in views
            ]
        return Nodes(nodes=views)

    @api.get("/v1/queues", tags=["cluster"], responses=REFUSALS)
    def queues(caller: Reader) -> TeamQueues:
        """Return the queues of teams: share, guarantee, used and borrowed GPUs; none without a queues file."""
        return TeamQueues(queues=manager.look(queue_views))

    @api.post("/v1/nodes/{node}/drain", status_code=204, tags=["cluster"], responses=ABOUT_A_JOB)
    def drain(node: NodeName, caller: Operator) -> None:
        """Let a node take no new job; the ones on it go on."""
        manager.drain(node)

    @api.post("/v1/nodes/{node}/resume", status_code=204, tags=["cluster"], responses=ABOUT_A_JOB)
    def resume(node: NodeName, caller: Operator) -> None:
        """Let a drained node take jobs again."""
        manager.resume(node)

    @api.get("/v1/reservations", tags=["cluster"], responses=REFUSALS)
    def reservations(caller: Reader) -> Reservations:
        """Return the nodes that are kept for queues, now or later."""
        return Reservations(reservations=manager.look(_reservations))

    @api.post("/v1/reservations", status_code=204, tags=["cluster"], responses=ABOUT_A_JOB)
    def reserve(asked: Reservation, caller: Operator) -> None:
        """Keep nodes for a queue for a time."""
        manager.reserve(asked.nodes, asked.queue, asked.begin, asked.end)

    @api.delete("/v1/nodes/{node}/reservation", status_code=204, tags=["cluster"], responses=ABOUT_A_JOB)
    def unreserve(node: NodeName, caller: Operator) -> None:
        """Keep a node no longer that was reserved while the manager runs; what the queues file says stays."""
        manager.unreserve([node])

    @api.get("/v1/status", tags=["cluster"], responses=REFUSALS)
    def status(caller: Reader) -> Status:
        """Return the policy, the cluster, and the number of jobs in each state."""
        return manager_status(manager)

    @api.get("/v1/health", tags=["cluster"], responses=REFUSALS)
    def scheduler_health(caller: Reader) -> ManagerHealth:
        """Return the times of decisions and commits, the depth of the queue, and (for operators) the last errors.

        Names of queues that are not in a queues file are parts of jobs: only those who operate see them.
        """
        answer = manager.health()
        if caller.operates:
            return answer
        queue = replace(answer.queue, waiting_by_queue=folded(answer.queue.waiting_by_queue, manager.queue_names))
        return replace(answer, last_errors=(), queue=queue)

    @api.get(
        "/v1/history",
        tags=["cluster"],
        responses=REFUSALS,
        response_model_exclude=all_but(HISTORY_FIELDS, "jobs"),
    )
    def history(
        caller: Reader,
        user: User = None,
        state: States = None,
        since: Moment = None,
        until: Moment = None,
        limit: Annotated[int, Query(ge=1, le=MOST_HISTORY)] = 100,
    ) -> History:
        """Return the jobs that existed at some time between `since` and `until`, the newest first."""
        states = frozenset(state or ())
        query = own_jobs(
            caller, JobQuery(user=user, states=states, ended_since=since, until=until, descending=True, limit=limit)
        )
        return History(jobs=manager.history(query) if query else [])

    @api.get("/metrics", tags=["cluster"], response_class=PlainTextResponse, responses=REFUSALS)
    def metrics(caller: Reader) -> Response:
        """Return metrics for Prometheus (give it a token of scope read); by queue if there is a queues file."""
        return Response(prometheus_text(manager, caller.operates), media_type=CONTENT_TYPE)

    @api.get("/v1/workload", tags=["cluster"], responses=REFUSALS)
    def workload(
        caller: Operator, last_s: Annotated[float | None, Query(gt=0, le=1e12, allow_inf_nan=False)] = None
    ) -> PastWork:
        """Return the jobs of the last seconds (or all), for a replay under other policies."""
        since = -math.inf if last_s is None else manager.clock() - last_s
        jobs = manager.workload(since)
        late = manager.late_rounds(since)
        return PastWork(now=manager.clock(), jobs=jobs, late=late, **dict(manager_status(manager)))


def _reservations(state: ClusterState, now: float) -> list[Reservation]:
    bookings = [one for one in state.teams.bookings if one.end > now]
    return [
        Reservation.model_validate({"nodes": one.nodes, "queue": one.queue, "from": one.begin, "to": one.end})
        for one in bookings
    ]


def manager_status(manager: Manager) -> Status:
    """Return what a client needs to know about the manager."""
    return Status(
        policy=manager.policy,
        placement=manager.placement,
        cluster=manager.cluster,
        counts=manager.counts(),
        # One line of it: where in the code the engine stopped is for the manager's own log.
        trouble=(manager.trouble.strip().splitlines() or [""])[-1],
    )
