"""Schemathesis over the description of the API: no request that it can make up ends in a server error or an answer not described."""

import os
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

schemathesis = pytest.importorskip(
    "schemathesis", reason="SKIPPED: schemathesis is not installed (pip install -e '.[dev]')"
)

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance  # noqa: E402

from headway.cluster.nodes import Cluster  # noqa: E402
from headway.io.accounts import own_account  # noqa: E402
from headway.live.http.api import make_api  # noqa: E402
from headway.live.http.guard import Guard  # noqa: E402
from headway.live.http.tokens import Tokens  # noqa: E402
from headway.live.manager.manager import Manager  # noqa: E402

# Not promised: that all a schema allows is accepted (it cannot say that a job has a command or a line for the shell, and no more GPUs
# than there are: 422), and that unknown query parameters are refused. tests/unit/api has the bodies that must be refused.
NOT_PROMISED = [positive_data_acceptance, negative_data_rejection]
EXAMPLES = 200 if os.environ.get("HEADWAY_LONG") else 12


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The API over a manager whose nodes are drained: whatever is submitted, nothing runs."""
    data = tmp_path_factory.mktemp("schema")
    # Names that no made-up request can guess: a drained node stays drained.
    manager = Manager(data, Cluster("described", (secrets.token_hex(8), secrets.token_hex(8)), (2, 2)))
    manager.start()
    try:
        for node in manager.cluster.nodes:
            manager.drain(node)
        tokens = Tokens(data, own_account()[1])
        hosts = ["testserver", "localhost", "127.0.0.1"]
        api = Guard(make_api(manager), tokens, hosts, rate_per_s=1e9, strangers_per_s=1e9)
        bearer = {"Authorization": f"Bearer {(data / 'token').read_text().strip()}"}
        from headway.live.jobfile.spec import JobSpec

        for _ in range(3):
            manager.submit(JobSpec(command=("true",)), own_account()[1])
        schema = schemathesis.openapi.from_asgi("/openapi.json", api)
        # The stream of events has no end; tests/unit/api reads it.
        yield schema.exclude(path="/v1/events"), bearer
        assert not list((data / "runs").iterdir()), "a made-up job was started"
    finally:
        manager.stop()


def test_every_answer_is_described(described: Any, subtests: pytest.Subtests) -> None:
    schema, bearer = described
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) >= 15
    for operation in operations:
        with subtests.test(operation.label):
            _check(operation, bearer)


def _check(operation: Any, bearer: dict[str, str]) -> None:
    """Made-up requests to one route, right and wrong ones."""
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    for mode in modes:

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        def every_answer(case: Any) -> None:
            # A pending job's log could be followed for ever.
            if case.query and "follow" in case.query:
                case.query["follow"] = "false"
            case.call_and_validate(headers=bearer, excluded_checks=NOT_PROMISED)

        try:
            every_answer()
        except Unsatisfiable:
            continue  # a route without parameters cannot be asked wrongly
