"""The manager over HTTP: one route per verb, described by OpenAPI at /openapi.json.

Routes are plain functions and run in worker threads, so that a submission that waits for the disk holds nobody else up. Every error is
`{"detail": words}`.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headway import __version__
from headway.client.job import JobView
from headway.errors import BadInput, HeadwayError
from headway.job_state import SHOWN_STATES
from headway.live.ask.views import JobFilter
from headway.live.errors import JournalFailed, NotFound, WrongState
from headway.live.http import access, cluster_routes, streams
from headway.live.http.access import ABOUT_A_JOB, REFUSALS, JobId, seen
from headway.live.http.tokens import Caller, Scope
from headway.live.jobfile.notes import notes_on
from headway.live.jobfile.spec import JobSpec
from headway.live.manager import MOST_KEY, Manager

PAGE = 100
LARGEST_PAGE = 1000
STATE = "|".join(SHOWN_STATES)


class Submitted(BaseModel):
    """The numbers of the jobs, which are on disk now (`job_id` is the first), and notes on what is not enforced."""

    job_id: int
    job_ids: list[int]
    notes: list[str]


class JobPage(BaseModel):
    """Jobs by number; ask again with `after_id=next_after_id` for more."""

    jobs: list[JobView]
    next_after_id: int | None


class Progress(BaseModel):
    """What a job says about itself."""

    model_config = ConfigDict(extra="forbid")
    attempt: int = Field(ge=0, le=2**31)
    step: int | None = Field(None, ge=0, le=2**53)
    total: int | None = Field(None, ge=0, le=2**53)
    loss: float | None = Field(None, allow_inf_nan=False)
    checkpointed: int | None = Field(None, ge=0, le=2**53, description="The last step that is saved.")


class Refusal(BaseModel):
    """Why a request was refused, in one line."""

    detail: str


SUBMISSION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobSpec"}}},
    },
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "minLength": 1, "maxLength": MOST_KEY},
            "description": "The same key never submits twice.",
        }
    ],
    "security": [{"HTTPBearer": []}],
}


def make_api(manager: Manager) -> FastAPI:
    """The whole application; it is served behind a Guard."""
    api = FastAPI(
        title="Headway",
        version=__version__,
        description="When, where and how training jobs run on this cluster.",
        # The interactive pages load scripts from elsewhere; the description itself is at /openapi.json.
        docs_url=None,
        redoc_url=None,
        responses={422: {"model": Refusal, "description": "A field is wrong; says which and what would be right."}},
    )
    api.state.manager = manager
    _handle_errors(api)
    _submission(api, manager)
    _jobs(api, manager)
    cluster_routes.add_routes(api, manager)
    streams.add_routes(api, manager)
    return api


def _handle_errors(api: FastAPI) -> None:
    """Turn expected failures into a status and one line, without anything of the inside."""

    def answer(status: int, words: str) -> JSONResponse:
        return JSONResponse({"detail": words}, status)

    @api.exception_handler(RequestValidationError)
    async def wrong_field(_: Request, error: RequestValidationError) -> JSONResponse:
        # The value itself is left out: it may hold what JSON cannot say, or a secret.
        parts = []
        for each in error.errors():
            where = ".".join(str(part) for part in each["loc"] if part not in {"body", "query", "path", "header"})
            words = str(each["msg"]).removeprefix("Value error, ")
            parts.append(f"{where}: {words}" if where else words)
        return answer(422, "; ".join(parts).encode("utf-8", "replace").decode())

    statuses = {NotFound: 404, WrongState: 409, JournalFailed: 503, BadInput: 422, HeadwayError: 400}
    for kind, status in statuses.items():

        async def expected(_: Request, error: Exception, status: int = status) -> JSONResponse:
            return answer(status, str(error))

        api.add_exception_handler(kind, expected)


def _submission(api: FastAPI, manager: Manager) -> None:
    # The one route that thousands of requests per second may ask for: it reads the request itself, which saves half its time, so what
    # it takes is described by hand.
    @api.post(
        "/v1/jobs",
        status_code=201,
        tags=["jobs"],
        responses=access.refusals({409: "The key was used for another job."}),
        response_model=Submitted,
        openapi_extra=SUBMISSION,
    )
    async def submit(request: Request) -> JSONResponse:
        """Submit a job. It is on disk when this answers; the same key again gives the same jobs, not new ones."""
        caller = access.allowed(request, Scope.SUBMIT)
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise BadInput("Content-Type: a job is sent as application/json")
        try:
            spec = JobSpec.model_validate_json(await request.body())
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_input=False)) from None
        hidden = next((other for other in spec.after if not _own(manager, caller, [other])), None)
        if hidden is not None:
            raise BadInput(f"after: there is no job {hidden}")
        numbers = await run_in_threadpool(manager.submit, spec, caller.user, request.headers.get("idempotency-key"))
        return JSONResponse({"job_id": numbers[0], "job_ids": numbers, "notes": notes_on(spec, manager.enforced)}, 201)

    @api.post("/v1/dry-run", tags=["jobs"], responses=REFUSALS)
    def dry_run(spec: JobSpec, caller: access.Submitter) -> dict[str, Any]:
        """Where and roughly when a job would start. Nothing is submitted."""
        answer = asdict(manager.dry_run(spec, caller.user))
        return {**answer, "preempts": _own(manager, caller, answer["preempts"])}


def _jobs(api: FastAPI, manager: Manager) -> None:
    @api.get("/v1/jobs", tags=["jobs"], responses=REFUSALS)
    def list_jobs(
        caller: access.Reader,
        user: Annotated[str | None, Query(max_length=64)] = None,
        state: Annotated[list[Annotated[str, Field(pattern=f"^({STATE})$")]] | None, Query()] = None,
        name: Annotated[str | None, Query(max_length=200)] = None,
        after_id: Annotated[int, Query(ge=0, le=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = PAGE,
    ) -> JobPage:
        """Jobs by number, filtered. Those who do not operate see their own."""
        if not caller.operates:
            if user not in {None, caller.user}:
                return JobPage(jobs=[], next_after_id=None)
            user = caller.user
        wanted = JobFilter(user, frozenset(state) if state else None, name, after_id, limit)
        found = manager.jobs(wanted)
        return JobPage(jobs=found, next_after_id=found[-1].job_id if len(found) == limit else None)

    @api.get("/v1/jobs/{job_id}", tags=["jobs"], responses=ABOUT_A_JOB)
    def show(job_id: JobId, caller: access.JobReader) -> JobView:
        """One job."""
        return seen(manager, caller, job_id)

    @api.get("/v1/jobs/{job_id}/explain", tags=["jobs"], responses=ABOUT_A_JOB)
    def explain(job_id: JobId, caller: access.JobReader) -> dict[str, Any]:
        """Why it waits: reason, numbers, jobs ahead, reservation, turns, what would change it, and the receipt of its wait."""
        seen(manager, caller, job_id)
        return asdict(manager.explain(job_id, caller.sees))

    for verb, words in {
        "cancel": "Stop a job and take it out of the queue.",
        "hold": "Keep a waiting job from starting.",
        "release": "Let a held job start again.",
        "requeue": "Stop a job and put it back into the queue.",
    }.items():
        _verb(api, manager, verb, words)

    @api.post("/v1/jobs/{job_id}/progress", status_code=204, tags=["jobs"], responses=ABOUT_A_JOB)
    def report(job_id: JobId, progress: Progress, caller: access.Reporter) -> None:
        """What the job says about itself; for its own token and its owner."""
        seen(manager, caller, job_id)
        manager.report(job_id, **progress.model_dump())


def _own(manager: Manager, caller: Caller, numbers: Iterable[int]) -> list[int]:
    """Of these jobs, those that the caller may see; how many there are in all is answered elsewhere."""
    jobs = ((number, manager.job(number)) for number in numbers)
    return [number for number, job in jobs if job is not None and caller.sees(number, job.user)]


def _verb(api: FastAPI, manager: Manager, verb: str, words: str) -> None:
    """One of the verbs that change a job."""

    def change(job_id: JobId, caller: access.Submitter) -> JobView:
        seen(manager, caller, job_id)
        getattr(manager, verb)(job_id)
        return seen(manager, caller, job_id)

    path = f"/v1/jobs/{{job_id}}/{verb}"
    api.post(path, tags=["jobs"], description=words, name=verb, operation_id=verb, responses=ABOUT_A_JOB)(change)
