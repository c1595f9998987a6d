"""What a job file asks for is obeyed, refused by name where it would change how the job runs, or noted where it only bounds it."""

import pytest

from headway.errors import BadInput
from headway.live.jobfile.notes import notes_on, refuse_unsupported
from headway.live.jobfile.spec import job_spec


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"network": {"isolation": "vclos"}}, r"^network\.isolation: needs a fabric"),
        ({"collective": {"schedule": "themis"}}, r"^collective\.schedule: needs a fabric.*schedule: none"),
        ({"checkpoint": {"dir": "/ckpt", "interval": "15m"}}, r"^checkpoint\.interval: is not carried out"),
    ],
)
def test_what_would_change_how_a_job_runs_is_refused_by_name(given: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        refuse_unsupported(job_spec({"run": "true", **given}))


def test_what_only_bounds_a_job_is_noted() -> None:
    spec = job_spec({"run": "true", "resources": {"cpus": 8, "memory": 64}, "queue": "team-a"})
    refuse_unsupported(spec)
    assert [note.split()[0] for note in notes_on(spec)] == ["resources.cpus", "resources.memory", "queue"]
    held = notes_on(spec, frozenset({"memory"}))  # what the machine holds jobs to is not noted
    assert [note.split()[0] for note in held] == ["resources.cpus", "queue"]


def test_what_is_obeyed_is_neither_refused_nor_noted() -> None:
    given = {
        "run": "true",
        "network": {"isolation": "none"},
        "collective": {"schedule": "none"},
        "checkpoint": {"dir": "/ckpt"},
        "time_limit": "1h",
    }
    spec = job_spec(given)
    refuse_unsupported(spec)
    assert notes_on(spec) == ()
