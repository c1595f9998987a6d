"""Routes that change jobs: cancel, hold, release and requeue, for one job or for many."""

from typing import Annotated, Literal

from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field

from headway.client.job import JobView
from headway.errors import BadInput, HeadwayError
from headway.live.errors import NotAdmitted, NotFound
from headway.live.http.access import ABOUT_A_JOB, REFUSALS, JobId, Submitter, check_queue, is_restricted, seen
from headway.live.http.problems import status_of
from headway.live.http.tokens import Caller
from headway.live.manager.manager import Manager

SUBMITTING = frozenset(
    {"release", "requeue"}
)  # verbs that put a job into its queue again, and are checked like a submission
MOST_AT_ONCE = 1000  # jobs of one request: the engine does nothing else meanwhile


class Action(BaseModel):
    """A verb and the jobs it is for. `now` (cancel) kills without a grace, `hold` (requeue) keeps them from starting again."""

    model_config = ConfigDict(extra="forbid")
    verb: Literal["cancel", "hold", "release", "requeue"]
    job_ids: Annotated[list[Annotated[int, Field(ge=1, le=2**53)]], Field(min_length=1, max_length=MOST_AT_ONCE)]
    now: bool = False
    hold: bool = False


class Refused(BaseModel):
    """A job that the verb did not apply to, and why."""

    job_id: int
    status: int
    code: str
    detail: str


class Acted(BaseModel):
    """The jobs afterwards, and those that refused, in the order asked for."""

    jobs: list[JobView]
    refused: list[Refused]


def add_routes(api: FastAPI, manager: Manager) -> None:
    """Add one route per verb, and one for many jobs."""

    def check(caller: Caller, job_id: int, verb: str) -> None:
        """Refuse a verb that puts a job into a queue that the caller may not submit to."""
        if verb not in SUBMITTING or not is_restricted(manager, caller):
            return
        spec = manager.spec(job_id)
        if spec is not None:  # else the job was pruned: the manager refuses it
            check_queue(manager, caller, spec)

    def changed(caller: Caller, job_id: int, verb: str, *option: bool) -> JobView:
        """Change a job that the caller may see, and return it as it is afterwards."""
        if not manager.visible([job_id], caller.sees):
            raise NotFound(f"there is no job {job_id}")
        check(caller, job_id, verb)
        getattr(manager, verb)(job_id, *option)
        return seen(manager, caller, job_id)

    @api.post("/v1/jobs/{job_id}/cancel", tags=["jobs"], responses=ABOUT_A_JOB)
    def cancel(
        job_id: JobId,
        caller: Submitter,
        now: Annotated[bool, Query(description="Kill it at once, without the grace of its preemption.")] = False,
    ) -> JobView:
        """Stop a job and take it out of the queue."""
        return changed(caller, job_id, "cancel", now)

    @api.post("/v1/jobs/{job_id}/hold", tags=["jobs"], responses=ABOUT_A_JOB)
    def hold(job_id: JobId, caller: Submitter) -> JobView:
        """Keep a waiting job from starting; one that runs is left alone, and refused."""
        return changed(caller, job_id, "hold")

    @api.post("/v1/jobs/{job_id}/release", tags=["jobs"], responses=ABOUT_A_JOB)
    def release(job_id: JobId, caller: Submitter) -> JobView:
        """Let a held job start again."""
        return changed(caller, job_id, "release")

    @api.post("/v1/jobs/{job_id}/requeue", tags=["jobs"], responses=ABOUT_A_JOB)
    def requeue(
        job_id: JobId,
        caller: Submitter,
        hold: Annotated[bool, Query(description="Keep it from starting again until it is released.")] = False,
    ) -> JobView:
        """Stop a job and put it back into the queue. What a running one has not saved (`unsaved_s`) is lost."""
        return changed(caller, job_id, "requeue", hold)

    @api.post("/v1/actions", tags=["jobs"], responses=REFUSALS)
    def act(action: Action, caller: Submitter) -> Acted:
        """Apply a verb to many jobs. Jobs that it does not apply to are named in `refused`."""
        numbers = list(dict.fromkeys(action.job_ids))
        mine = manager.visible(numbers, caller.sees)
        errors: dict[int, HeadwayError] = {n: NotFound(f"there is no job {n}") for n in numbers if n not in mine}
        for number in mine:
            try:
                check(caller, number, action.verb)
            except (BadInput, NotAdmitted) as error:
                errors[number] = error
        option = action.now if action.verb == "cancel" else action.hold
        errors |= manager.act(action.verb, [number for number in numbers if number not in errors], option)
        done = manager.views([number for number in numbers if number not in errors])
        refused = [
            Refused(job_id=n, status=status_of(errors[n]), code=errors[n].code, detail=str(errors[n]))
            for n in numbers
            if n in errors
        ]
        return Acted(jobs=done, refused=refused)
