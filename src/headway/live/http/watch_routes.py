"""Routes for monitoring: cluster overview, queue, trend, timeline of a job, network, replay.

The dashboard reads these and the other public routes, and nothing else.
"""

from typing import Annotated, Final

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from pydantic import BaseModel, Field

from headway.client.job import QUEUE_FIELDS, JobQuery, Order
from headway.live.http.access import (
    ABOUT_A_JOB,
    REFUSALS,
    JobId,
    JobReader,
    Operator,
    QueueName,
    Reader,
    States,
    User,
    all_but,
    refusals,
    seen,
)
from headway.live.http.guard import SIGN_IN
from headway.live.http.server.sessions import CODE_S
from headway.live.manager.manager import Manager
from headway.live.queries import answers, fabric
from headway.live.queries.answers import NetworkView, QueuePage, Story, Trend
from headway.live.queries.lists.listed import queue_page
from headway.live.queries.overview import About, overview
from headway.live.queries.replay.replay import Replay
from headway.live.queries.trend import KEPT_S
from headway.policies.registry import listed
from headway.reasons import REASONS, Reason

LONGEST_PAGE = 500
MOST_STEPS = 1000


BUSY = refusals({409: "Another question of this kind is being computed."})


class Me(BaseModel):
    """The token that asks: its name, the user it acts as, what it allows, and the queues that it is bound to (empty: to none)."""

    name: str
    user: str
    scope: str
    expires: float | None
    queues: tuple[str, ...] = ()


class Code(BaseModel):
    """A code with which a browser signs in once, within `expires_s` seconds."""

    code: str
    expires_s: float


class SignIn(BaseModel):
    """A code from `/v1/codes`, or a token."""

    model_config = {"extra": "forbid"}
    secret: Annotated[str, Field(min_length=1, max_length=200)]


class SignedIn(BaseModel):
    """A session: sent like a token, allows the same, and ends with the token, with the manager, and by signing out."""

    session: str


class Choice(BaseModel):
    """A policy that jobs can be replayed under; `oracle`: it knows how much work is left, which nobody knows live."""

    name: str
    summary: str
    oracle: bool


class Choices(BaseModel):
    """The policies of this version."""

    policies: list[Choice]


class Reasons(BaseModel):
    """Why jobs can wait: the closed list."""

    reasons: list[Reason]


class WhatIf(BaseModel):
    """A question: the jobs of the last seconds, under these policies."""

    model_config = {"extra": "forbid"}
    policies: Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(min_length=1, max_length=4)]
    last_s: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = KEPT_S


def queue_query(
    text: Annotated[str, Query(max_length=200, description="Part of a name or a user, or a job's number.")] = "",
    user: User = None,
    queue: QueueName = None,
    state: States = None,
    sort: Annotated[Order, Query(description="order: on GPUs first, then as the policy sorts.")] = "order",
    descending: bool = False,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE)] = 100,
) -> JobQuery:
    """Return what is asked of the queue, here and in the player."""
    states = frozenset(state or ())
    return JobQuery(
        text=text, user=user, queue=queue, states=states, order=sort, descending=descending, offset=offset, limit=limit
    )


OVERVIEW_SHOWS: Final = all_but(QUEUE_FIELDS, "jobs", "waiting")
QUEUE_SHOWS: Final = all_but(QUEUE_FIELDS, "jobs")  # the network too


def add_routes(api: FastAPI, manager: Manager) -> None:
    """Add the routes for monitoring and for sessions."""

    @api.get("/v1/me", tags=["cluster"], responses=REFUSALS)
    def me(caller: JobReader) -> Me:
        """Return the owner of the token, and what it allows."""
        return Me(
            name=caller.name, user=caller.user, scope=caller.scope.value, expires=caller.expires, queues=caller.queues
        )

    @api.post("/v1/codes", tags=["sessions"], responses=REFUSALS)
    def make_code(request: Request, caller: Reader) -> Code:
        """Make a code. A browser that signs in with it may do what this token may."""
        return Code(code=request.state.tokens.make_code(request.state.bearer), expires_s=CODE_S)

    @api.post(SIGN_IN, tags=["sessions"], responses=REFUSALS)
    def sign_in(request: Request, given: SignIn) -> SignedIn:
        """Exchange a code or a token for a session."""
        session = request.state.tokens.sign_in(given.secret)
        if session is None:
            raise HTTPException(
                401, "this code or token is not known here, was used, or has expired: run `headway dashboard`"
            )
        return SignedIn(session=session)

    @api.post("/v1/sign-out", status_code=204, tags=["sessions"], responses=REFUSALS)
    def sign_out(request: Request, caller: Reader) -> None:
        """End the session that asks."""
        request.state.tokens.sign_out(request.state.bearer)

    @api.get("/v1/overview", tags=["cluster"], responses=REFUSALS, response_model_exclude=OVERVIEW_SHOWS)
    def glance(caller: Reader) -> answers.Overview:
        """Return the cluster at one moment. Callers that do not operate see their own jobs; GPUs of others are marked 0."""
        trouble = (manager.trouble.strip().splitlines() or [""])[-1]
        about = About(manager.policy, manager.placement, trouble, manager.last_event)
        return manager.look(lambda state, now: overview(state, now, caller.sees, about))

    @api.get("/v1/queue", tags=["jobs"], responses=REFUSALS, response_model_exclude=QUEUE_SHOWS)
    def queue(
        caller: Reader,
        query: Annotated[JobQuery, Depends(queue_query)],
    ) -> QueuePage:
        """Return a part of the jobs that have not ended, filtered and sorted, with the priority queues."""
        return manager.look(lambda state, now: queue_page(state, now, caller.sees, query))

    @api.get("/v1/trend", tags=["cluster"], responses=REFUSALS)
    def trend(
        caller: Reader,
        last_s: Annotated[float, Query(ge=1, le=KEPT_S, allow_inf_nan=False)] = 3600.0,
        steps: Annotated[int, Query(ge=1, le=MOST_STEPS)] = 120,
    ) -> Trend:
        """Return GPUs in use, and running, waiting and ended jobs, over the last seconds (a day at most)."""
        return manager.trend(last_s, steps)

    @api.get("/v1/jobs/{job_id}/story", tags=["jobs"], responses=ABOUT_A_JOB)
    def job_story(job_id: JobId, caller: JobReader) -> Story:
        """Return the life of a job: when it waited, started, ran and stopped, on which nodes and links."""
        return manager.story(seen(manager, caller, job_id))

    @api.get("/v1/network", tags=["cluster"], responses=REFUSALS, response_model_exclude=QUEUE_SHOWS)
    def network(caller: Reader) -> NetworkView:
        """Return the switches, and which jobs hold which links. Jobs that the caller may not see are marked 0."""
        return manager.look(lambda state, now: fabric.network(state, now, caller.sees))

    @api.get("/v1/policies", tags=["cluster"], responses=REFUSALS)
    def policies(caller: Reader) -> Choices:
        """Return the policies that jobs can be replayed under."""
        rows = [Choice(name=name, summary=each.summary, oracle=each.oracle) for name, each in listed().items()]
        return Choices(policies=rows)

    @api.post("/v1/replay", tags=["cluster"], responses=BUSY)
    def replayed(question: WhatIf, caller: Operator) -> Replay:
        """Simulate the jobs of the last seconds under other policies, and return their completion times."""
        return manager.what_if(question.policies, question.last_s)

    add_reasons(api)


def add_reasons(api: FastAPI) -> None:
    """Add the route of the texts of reasons, which the player has too."""

    @api.get("/v1/reasons", tags=["cluster"], responses=REFUSALS)
    def listed_reasons(caller: Reader) -> Reasons:
        """Return why jobs can wait: code, texts, and what would help."""
        return Reasons(reasons=list(REASONS))
