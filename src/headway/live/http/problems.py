"""How every refusal is answered: problem details (RFC 9457), as application/problem+json."""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi.responses import JSONResponse
from pydantic import BaseModel

from headway.errors import BadInput, HeadwayError
from headway.live.errors import JournalFailed, NotAdmitted, NotFound, WrongState

MEDIA_TYPE = "application/problem+json"
STATUSES: Mapping[type[HeadwayError], int] = {
    NotAdmitted: 403,
    NotFound: 404,
    WrongState: 409,
    BadInput: 422,
    JournalFailed: 503,
    HeadwayError: 400,
}


class Problem(BaseModel):
    """Why a request was refused: `detail` in one line, `title` is the status in words."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


def status_of(error: HeadwayError) -> int:
    """Return the HTTP status of an expected failure."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer to a request that is refused."""
    content = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return JSONResponse(content.model_dump(), status, dict(headers or {}), MEDIA_TYPE)
