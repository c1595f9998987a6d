"""The manager over HTTP: one route per verb, described by OpenAPI at /openapi.json.

Routes are plain functions and run in worker threads, so that a request that waits for the disk delays no other. Every error is a
problem (problems.py).
"""

import json
from dataclasses import replace
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headway import __version__, web
from headway.client.job import JobQuery, JobView
from headway.errors import HeadwayError, wrong_field
from headway.live.http import access, cluster_routes, streams, verbs, watch_routes
from headway.live.http.access import ABOUT_A_JOB, REFUSALS, JobId, seen
from headway.live.http.direct import Answers, Api, Created
from headway.live.http.problems import MEDIA_TYPE, Problem, problem, status_of
from headway.live.http.tokens import Caller, Scope
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.manager import Manager
from headway.live.manager.submission import MOST_KEY
from headway.live.queries.explain.explain import Explanation
from headway.live.queries.forecast import DryRun

PAGE = 100
LARGEST_PAGE = 1000
NO_OBJECT = frozenset({"model_type", "model_attributes_type", "dict_type"})  # mistakes, as pydantic names them
HIDDEN = "***"  # instead of a value that is not the caller's to see


class Submitted(BaseModel):
    """The numbers of the jobs, which are on disk now (`job_id` is the first), and notes on what is not enforced."""

    job_id: int
    job_ids: list[int]
    notes: list[str]


class JobPage(BaseModel):
    """Jobs by number, or the newest first; ask again with `after_id=next_after_id` for more."""

    jobs: list[JobView]
    next_after_id: int | None


class Progress(BaseModel):
    """The progress that a job reports."""

    model_config = ConfigDict(extra="forbid")
    attempt: int = Field(ge=0, le=2**31)
    step: int | None = Field(None, ge=0, le=2**53)
    total: int | None = Field(None, ge=0, le=2**53)
    loss: float | None = Field(None, allow_inf_nan=False)
    checkpointed: int | None = Field(None, ge=0, le=2**53, description="The last step that is saved.")


WRONG_FIELD: dict[int | str, dict[str, Any]] = {
    422: {
        "model": Problem,
        "description": "A field is wrong; says which and what would be right.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}
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
    """Return the application, which is served behind a Guard."""
    api = Api(
        title="Headway",
        version=__version__,
        description="When, where and how training jobs run on this cluster.",
        # The interactive pages load scripts from elsewhere; the description itself is at /openapi.json.
        docs_url=None,
        redoc_url=None,
        responses=WRONG_FIELD,
    )
    api.state.manager = manager
    handle_errors(api)
    _submission(api, manager)
    api.make_direct("POST", "/v1/jobs")
    _jobs(api, manager)
    verbs.add_routes(api, manager)
    cluster_routes.add_routes(api, manager)
    streams.add_routes(api, manager)
    watch_routes.add_routes(api, manager)
    web.add_pages(api)
    return api


def handle_errors(api: FastAPI) -> None:
    """Answer errors with a status and one line, which reveals nothing internal."""

    @api.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, str(error.detail), error.headers)

    @api.exception_handler(RequestValidationError)
    async def wrong_field(_: Request, error: RequestValidationError) -> JSONResponse:
        # The value itself is left out: it may hold what JSON cannot say, or a secret.
        parts, names = [], set[str]()
        for mistake in error.errors():
            where = ".".join(str(part) for part in mistake["loc"] if part not in {"body", "query", "path", "header"})
            text = str(mistake["ctx"]["error"] if mistake["type"] == "value_error" else mistake["msg"])
            text = "write a JSON object" if mistake["type"] in NO_OBJECT else text
            parts.append(f"{where}: {text}" if where else text)
            names.add(where)
        detail = "; ".join(parts).encode("utf-8", "replace").decode()
        field = names.pop().encode("utf-8", "replace").decode() if len(names) == 1 else ""
        return problem(422, detail, fields={"field": field} if field else None)

    @api.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        return problem(500, "the manager made a mistake; its own messages say which")

    @api.exception_handler(HeadwayError)
    async def expected(_: Request, error: HeadwayError) -> JSONResponse:
        return problem(status_of(error), str(error), code=error.code, fields=error.fields)


def _submission(api: FastAPI, manager: Manager) -> None:
    answers = Answers()

    # It reads the request itself (see direct.py), so what it takes is described by hand.
    @api.post(
        "/v1/jobs",
        status_code=201,
        tags=["jobs"],
        responses=access.refusals({409: "The key was used for another job."}),
        response_model=Submitted,
        openapi_extra=SUBMISSION,
    )
    async def submit(request: Request) -> Response:
        """Submit a job. It is on disk when this answers; the same key again gives the same jobs, not new ones."""
        caller = access.allowed(request, Scope.SUBMIT)
        headers = dict(request.scope["headers"])
        if not headers.get(b"content-type", b"").startswith(b"application/json"):
            raise wrong_field("Content-Type", "a job is sent as application/json")
        try:
            spec = JobSpec.model_validate(await request.json())
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_input=False)) from None
        if spec.after or access.is_restricted(manager, caller):  # jobs and groups may take a while to look up
            await run_in_threadpool(_check_submission, manager, caller, spec)
        key = headers.get(b"idempotency-key")
        # No thread waits for the disk: the journal's thread answers.
        waiting, tell = answers.expect()
        manager.submit_later(spec, caller.user, None if key is None else key.decode("latin-1"), tell)
        done = await waiting
        if done.error is not None:
            raise done.error
        first = done.numbers[0]
        content = {"job_id": first, "job_ids": list(done.numbers), "notes": manager.notes_on(spec)}
        return Created(json.dumps(content).encode(), f"/v1/jobs/{first}")

    @api.post("/v1/dry-run", tags=["jobs"], responses=REFUSALS)
    def dry_run(spec: JobSpec, caller: access.Submitter) -> DryRun:
        """Return where and roughly when a job would start. Nothing is submitted."""
        _check_submission(manager, caller, spec)
        answer = manager.dry_run(spec, caller.user)
        mine = manager.visible(answer.preempts, caller.sees)
        return replace(answer, preempts=tuple(number for number in answer.preempts if number in mine))


def _check_submission(manager: Manager, caller: Caller, spec: JobSpec) -> None:
    """Refuse a queue that does not admit the caller, and jobs in `after` that do not exist for the caller."""
    access.check_queue(manager, caller, spec)
    named = [need.job for need in spec.needs]
    if not named:
        return
    mine = manager.visible(named, caller.sees)
    hidden = next((number for number in named if number not in mine), None)
    if hidden is not None:
        raise wrong_field("after", f"there is no job {hidden}")


def _jobs(api: FastAPI, manager: Manager) -> None:
    @api.get("/v1/jobs", tags=["jobs"], responses=REFUSALS)
    def list_jobs(
        caller: access.Reader,
        user: access.User = None,
        state: access.States = None,
        name: Annotated[str | None, Query(max_length=200)] = None,
        after_id: Annotated[int, Query(ge=0, le=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = PAGE,
        queue: access.QueueName = None,
        array_id: Annotated[int | None, Query(ge=1, le=2**53)] = None,
        since: access.Moment = None,
        until: access.Moment = None,
        newest: Annotated[bool, Query(description="The newest first.")] = False,
    ) -> JobPage:
        """Return jobs by number, filtered (`since` and `until`: by submission). Callers that do not operate see their own jobs."""
        query = access.own_jobs(
            caller,
            JobQuery(
                user=user,
                states=frozenset(state or ()),
                name=name or "",
                queue=queue,
                array_id=array_id,
                since=since,
                until=until,
                descending=newest,
                after_id=after_id,
                limit=limit,
            ),
        )
        jobs = manager.jobs(query) if query else []
        return JobPage(jobs=jobs, next_after_id=jobs[-1].job_id if len(jobs) == limit else None)

    @api.get("/v1/jobs/{job_id}", tags=["jobs"], responses=ABOUT_A_JOB)
    def show(job_id: JobId, caller: access.JobReader) -> JobView:
        """Return one job, with its job file. Only its own user sees the values of its environment."""
        job, spec = seen(manager, caller, job_id), manager.spec(job_id)
        content = None if spec is None else spec.model_dump(mode="json", exclude_defaults=True)
        if content and "envs" in content and caller.user != job.user:
            content["envs"] = dict.fromkeys(content["envs"], HIDDEN)
        return replace(job, spec=content, slice=manager.slice(job_id))

    @api.get("/v1/jobs/{job_id}/explain", tags=["jobs"], responses=ABOUT_A_JOB)
    def explain(job_id: JobId, caller: access.JobReader) -> Explanation:
        """Return why a job waits: reason, numbers, jobs ahead, reservation, minimum run times, what would help, and its receipt."""
        seen(manager, caller, job_id)
        return manager.explain(job_id, caller.sees)

    @api.post("/v1/jobs/{job_id}/progress", status_code=204, tags=["jobs"], responses=ABOUT_A_JOB)
    def report(job_id: JobId, progress: Progress, caller: access.Reporter) -> None:
        """Report the progress of a job, with its own token or that of its owner."""
        seen(manager, caller, job_id)
        manager.report(job_id, **progress.model_dump())
