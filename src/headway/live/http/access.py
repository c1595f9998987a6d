"""Access control of the API: scopes as dependencies of the routes, and the rule for other users' jobs."""

import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import fields, replace
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Path, Query, Request, Security
from fastapi.security import HTTPBearer
from pydantic import AfterValidator, BeforeValidator, Field

from headway.client.job import JobQuery, JobView
from headway.io.numbers import JOB_NUMBER
from headway.job_state import SHOWN_STATES
from headway.live.http.problems import MEDIA_TYPE
from headway.live.http.tokens import Caller, Scope
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.manager import Manager

# For the description of the API only: the guard has checked the token before.
bearer = HTTPBearer(
    auto_error=False, description="The owner's token, one made with `headway token make`, a job's own, or a session."
)


def _job_number(text: Any) -> Any:
    """Refuse what is not the number of a job in plain digits: pydantic reads 1_2 as 12."""
    if isinstance(text, str) and not re.fullmatch(JOB_NUMBER, text):
        raise ValueError("a job's number is written in the digits 0 to 9, without leading zeros")
    return text


def _state(text: str) -> str:
    """Refuse a word that is not a state of a job."""
    if text not in SHOWN_STATES:
        raise ValueError(f"unknown state: write one of {', '.join(SHOWN_STATES)}")
    return text


# The journal's integers are 64-bit; nobody reaches this.
JobId = Annotated[int, BeforeValidator(_job_number), Path(ge=1, le=2**53, description="The job's number.")]
# What lists of jobs are filtered by.
User = Annotated[str | None, Query(max_length=64)]
QueueName = Annotated[str | None, Query(max_length=256)]
StateName = Annotated[str, AfterValidator(_state), Field(json_schema_extra={"enum": list(SHOWN_STATES)})]
States = Annotated[list[StateName] | None, Query()]
Moment = Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False, description="Seconds since 1970.")]


def allowed(request: Request, scope: Scope, own_job: bool = False) -> Caller:
    """Return the caller if its token covers `scope`, or refuse it; `own_job`: a job's token passes too."""
    caller: Caller = request.state.caller
    if caller.scope.covers(scope) or (own_job and caller.scope is Scope.JOB):
        return caller
    raise HTTPException(403, f"this token allows {caller.scope}: this request needs {scope}")


def needs(scope: Scope, *, own_job: bool = False) -> Callable[[Request, Any], Awaitable[Caller]]:
    """Return the check of a scope as a dependency of a route."""

    async def check(request: Request, _: Annotated[Any, Security(bearer)]) -> Caller:
        return allowed(request, scope, own_job)

    return check


Reader = Annotated[Caller, Depends(needs(Scope.READ))]
JobReader = Annotated[Caller, Depends(needs(Scope.READ, own_job=True))]
Submitter = Annotated[Caller, Depends(needs(Scope.SUBMIT))]
Reporter = Annotated[Caller, Depends(needs(Scope.SUBMIT, own_job=True))]
Operator = Annotated[Caller, Depends(needs(Scope.OPERATE))]


def all_but(shown: Collection[str], *lists: str) -> dict[str, Any]:
    """Return which fields of jobs a route leaves out: all but those shown, in these lists of its answer."""
    hidden = {field.name for field in fields(JobView)} - set(shown)
    return {name: {"__all__": hidden} for name in lists}


def own_jobs(caller: Caller, query: JobQuery) -> JobQuery | None:
    """Return a query for the jobs that the caller may see: operators see all jobs, other users their own; None: no jobs."""
    if caller.operates or query.user == caller.user:
        return query
    return replace(query, user=caller.user) if query.user is None else None


def seen(manager: Manager, caller: Caller, job_id: int) -> JobView:
    """Return a job that the caller may see; the job of another user is not found."""
    job = manager.job(job_id)
    if job is None or not caller.sees(job_id, job.user):
        raise HTTPException(404, f"there is no job {job_id}")
    return job


def is_restricted(manager: Manager, caller: Caller) -> bool:
    """Return whether some queue may refuse the caller. No queue refuses an operator."""
    return not caller.operates and (bool(caller.queues) or manager.restricts_queues)


def check_queue(manager: Manager, caller: Caller, spec: JobSpec) -> None:
    """Refuse (NotAdmitted) a job in a queue that the caller may not submit to.

    Submissions, dry runs, requeues and releases call this. Looking up groups may block: do not call it on the event loop.
    """
    if is_restricted(manager, caller):
        manager.check_access(spec, caller.user, caller.queues)


def refusals(more: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    """Return the refusals of a route for the description of the API: those of every route, and more."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    every = {
        400: "The request cannot be used.",
        401: "No token, or one that is not known.",
        403: "The token or the queue does not allow this, or the request comes from another web page.",
        413: "The body is too large.",
        421: "The Host header names another machine.",
        429: "Too many requests.",
        431: "The line of the request and its headers are too long.",
        503: "The journal cannot be written; nothing was changed.",
    }
    return {status: {"description": words, "content": content} for status, words in {**every, **more}.items()}


REFUSALS = refusals({})
ABOUT_A_JOB = refusals(
    {404: "There is no such job, or it is another user's.", 409: "The job's state does not allow this."}
)
