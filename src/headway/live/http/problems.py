"""How every refusal is answered: problem details (RFC 9457), as application/problem+json."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel

from headway.errors import BadInput, HeadwayError
from headway.live.errors import JournalFailed, NotAdmitted, NotFound, ReplayFailed, WrongState

MEDIA_TYPE = "application/problem+json"
STATUSES: Mapping[type[HeadwayError], int] = {
    NotAdmitted: 403,
    NotFound: 404,
    WrongState: 409,
    BadInput: 422,
    ReplayFailed: 500,
    JournalFailed: 503,
    HeadwayError: 400,
}


class Problem(BaseModel):
    """Why a request was refused: `detail` in one line, `title` is the status in words; programs read `code` and `fields`."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    fields: dict[str, Any] = {}


def status_of(error: HeadwayError) -> int:
    """Return the HTTP status of an expected failure."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def problem(
    status: int,
    detail: str,
    headers: Mapping[str, str] | None = None,
    code: str = "",
    fields: Mapping[str, Any] | None = None,
) -> JSONResponse:
    """Return the answer to a request that is refused; without a `code`, the status gives it (401: `unauthorized`, 422: `bad_input`)."""
    title = HTTPStatus(status).phrase
    name = code or (BadInput.code if status == STATUSES[BadInput] else HTTPStatus(status).name.lower())
    content = Problem(title=title, status=status, detail=detail, code=name, fields=dict(fields or {}))
    return JSONResponse(content.model_dump(), status, dict(headers or {}), MEDIA_TYPE)
