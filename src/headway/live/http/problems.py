"""How every refusal is answered: problem details (RFC 9457), as application/problem+json."""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi.responses import JSONResponse
from pydantic import BaseModel

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """Why a request was refused: `detail` in one line, `title` is the status in words."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer to a request that is refused."""
    content = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return JSONResponse(content.model_dump(), status, dict(headers or {}), MEDIA_TYPE)
