"""Problems carry the code and the fields of errors, so that programs need not read messages."""

import json
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from headway.client.transport import ApiError, _content
from headway.errors import BadInput, HeadwayError, ImpossibleJobs
from headway.live.errors import JournalDamaged, NotDoneYet
from headway.live.http.api import handle_errors
from headway.live.http.problems import problem, status_of


def subclasses(kind: type[HeadwayError]) -> Iterator[type[HeadwayError]]:
    """Yield an error class and all classes below it that the manager raises or answers with."""
    if kind.__module__ in ("headway.errors", "headway.live.errors"):
        yield kind
    for below in kind.__subclasses__():
        yield from subclasses(below)


KINDS = sorted(set(subclasses(HeadwayError)), key=lambda kind: kind.__name__)


def test_every_class_of_errors_has_its_own_code() -> None:
    assert len({kind.code for kind in KINDS}) == len(KINDS) == 15


@pytest.mark.parametrize("kind", KINDS)
def test_a_problem_has_the_code_and_the_fields_of_its_error(kind: type[HeadwayError]) -> None:
    api, error = FastAPI(), kind("what")
    handle_errors(api)

    @api.get("/")
    def refuse() -> None:
        raise error

    answer = TestClient(api).get("/")
    assert answer.status_code == status_of(error)
    assert answer.json()["code"] == kind.code
    assert answer.json()["fields"] == error.fields
    assert answer.json()["detail"] == str(error)
    with pytest.raises(ApiError, match="what") as refused:
        _content(answer.status_code, answer.content)
    assert (refused.value.code, refused.value.fields) == (kind.code, error.fields)


def test_a_problem_without_an_error_is_named_by_its_status() -> None:
    assert json.loads(problem(401, "who?").body)["code"] == "unauthorized"
    assert json.loads(problem(422, "not JSON").body)["code"] == "bad_input"
    assert json.loads(problem(429, "slow down").body)["code"] == "too_many_requests"
    with pytest.raises(ApiError) as refused:
        _content(502, b"<html>")
    assert (refused.value.code, refused.value.fields) == ("refused", {})


def test_messages_are_made_of_fields() -> None:
    error = ImpossibleJobs("t: 1 of 2 jobs is too large", "; leave such jobs out")
    assert str(error).endswith("jobs out with --skip-impossible")
    assert error.with_option("skip_impossible: yes").endswith("jobs out with skip_impossible: yes")
    assert ImpossibleJobs("all").with_option("x") == "all"
    assert JournalDamaged("row 3", "j.db").fields == {"what": "row 3", "path": "j.db"}
    later = (
        "it will be once the journal can be written, if this manager still runs then"  # the request is in its memory
    )
    assert f"(disk full): not done yet; {later}" in str(NotDoneYet("disk full"))
    assert BadInput("a", {"field": "gpus"}).fields == {"field": "gpus"}
