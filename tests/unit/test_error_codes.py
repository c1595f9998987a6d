"""Errors carry a code and fields, and docs/live.md lists the codes that the API answers with."""

import re
from pathlib import Path

from headway.errors import BadInput, HeadwayError
from headway.live import errors
from headway.live.http.problems import status_of

DOCS = Path(__file__).parents[2] / "docs" / "live.md"
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HeadwayError)]
OF_THE_API = {BadInput, *KINDS} - {
    HeadwayError,
    errors.AlreadyServed,
}  # a start of the manager is refused with the latter


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in {HeadwayError, *OF_THE_API, errors.AlreadyServed}]
    assert len(set(codes)) == len(codes)


def test_the_docs_list_the_codes_of_the_api_with_their_statuses() -> None:
    text = DOCS.read_text("utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \| \d{3} \|", text, re.MULTILINE))
    assert listed == {kind.code for kind in OF_THE_API}
    missing = [kind.code for kind in OF_THE_API if f"| `{kind.code}` | {status_of(kind('why'))} |" not in text]
    assert not missing
