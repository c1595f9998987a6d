"""Job files as people write them, the rules on ends, and the life cycle of a clock-free core: no process is started here."""

import pytest

from headway.errors import BadInput
from headway.io.yaml_file import read_yaml
from headway.job_state import JobState
from headway.live.executors import Report
from headway.live.jobfile.spec import JobSpec, array_tasks, job_spec
from headway.live.manager.outcome import Backoff, outcome
from headway.live.rows import CANCEL, HOLD, NO_BLOCKERS, PREEMPT, TIME_UP, Blocker
from headway.live.state.records import Job, JobProgress


def test_the_job_file_of_the_interface() -> None:
    spec = job_spec(
        {
            "name": "gpt",
            "num_nodes": 2,
            "resources": {"accelerators": 8, "cpus": 64, "memory": 512},
            "tasks_per_node": 1,
            "envs": {},
            "run": "torchrun train.py",
            "queue": "team-a",
            "array": "0-99%8",
            "time_limit": "24h",
            "network": {"isolation": "vclos"},
            "collective": {"schedule": "themis"},
            "preemptible": True,
            "preemption": {"signal": "SIGTERM", "grace": "120s", "min_runtime": "10m"},
            "checkpoint": {"dir": "/ckpt", "interval": "15m"},
            "retry": {"on": ["failure", "node_failure"], "max": 3},
        }
    )
    assert (spec.gpus, spec.ranks, spec.time_limit, spec.preemption.grace) == (16, 2, 86_400.0, 120.0)
    assert spec.argv == ("/bin/sh", "-c", "torchrun train.py")
    assert JobSpec.model_validate_json(spec.model_dump_json(exclude_defaults=True)) == spec


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "either a command"),
        ({"run": "x", "command": ["y"]}, "either a command"),
        ({"command": [""]}, "empty"),
        ({"run": "x", "gpu": 2}, "unknown key 'gpu'"),
        ({"run": "x", "resources": {"accelerators": 0}}, "resources.accelerators: .*greater than or equal to 1"),
        ({"run": "x", "resources": {"memory": "100MB"}}, "resources.memory: is a number of GB, such as 64"),
        ({"run": "x", "time_limit": "soon"}, "time_limit: .*not a time"),
        ({"run": "x", "time_limit": True}, "time_limit: a time is a number"),
        ({"run": "x", "preemption": {"signal": "SIGKILL"}}, "not a signal that a job can catch"),
        ({"run": "x\0y"}, "zero byte"),
        ({"run": "x", "envs": {"A=B": "c"}}, "not the name of an environment variable"),
        ({"run": "x", "array": "5-1"}, "runs backwards: write 1-5"),
        ({"run": "x", "array": "0-9%0"}, "not an array"),
        ({"run": "x", "array": "0-999999999"}, "more than 100000 tasks"),
        (
            {"run": "x", "num_nodes": 9, "tasks_per_node": 4096},
            "tasks_per_node: 36,864 ranks in all, and .* 4,096 processes",
        ),
        (
            {"run": "x", "tasks_per_node": "many"},
            r"job.yaml: tasks_per_node: 'many' is not a whole number from 1 to 4,096: write",
        ),
        ({"run": "x", "tasks_per_node": 0}, r"tasks_per_node: 0 is not .* or gpu for one rank per GPU$"),
        ({"run": "x", "array": "zz"}, "^job.yaml: array: 'zz' is not an array"),
        ({"run": "x", "envs": {"1A": "c"}}, "^job.yaml: envs: '1A' is not the name"),
        ({"run": "x", "preemption": {"min_runtime": []}}, "preemption.min_runtime: write a time such as 15m, or auto$"),
        ({"run": "x", "network": {"isolation": "full"}}, "network.isolation"),
        ({"run": "x", "after": [0]}, "after.0"),
        ({"command": "true"}, r"command: write a list of words, such as \[python, train.py\], or use run"),
        ({"run": "x", "after": 1}, r"after: write a list, such as \[12, any:13\]$"),
        ({"run": "x", "constraints": [""]}, "constraints: a feature has no name: write one such as ib"),
        ("run: x", "a job is a mapping"),
    ],
)
def test_what_is_wrong_is_named(given: object, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        job_spec(given, "job.yaml")


def test_arrays() -> None:
    assert array_tasks("0-3") == ([0, 1, 2, 3], None)
    assert array_tasks("7,1-2,2%5") == ([1, 2, 7], 5)


def test_who_may_be_preempted() -> None:
    assert not JobSpec(run="x").may_preempt
    assert job_spec({"run": "x", "checkpoint": {"dir": "/c"}}).may_preempt
    assert JobSpec(run="x", preemptible=True).may_preempt
    assert not job_spec({"run": "x", "checkpoint": {"dir": "/c"}, "preemptible": False}).may_preempt


def job(asked: str = "", failures: int = 0, **spec: object) -> Job:
    found = Job(1, "me", job_spec({"run": "x", "time_limit": 5, **spec}), 0.0)
    found.stop_reason, found.failures = asked, failures
    return found


ENDS = {
    "done": Report("ended", 1, 1, exit_code=0),
    "bad": Report("ended", 1, 1, exit_code=3),
    "signalled": Report("ended", 1, 1, exit_code=143, signalled=True),
    "saved": Report("ended", 1, 1, exit_code=0, signalled=True),
    "lost": Report("ended", 1, 1, lost=True),
    "never": Report("ended", 1, 1, lost=True, never_ran=True),
    "refused": Report("ended", 1, 1, lost=True, never_ran=True, refused=True),
}


@pytest.mark.parametrize(
    ("asked", "end", "state", "blockers"),
    [
        ("", "done", "COMPLETED", NO_BLOCKERS),
        ("", "bad", "FAILED", NO_BLOCKERS),
        ("", "lost", "", Blocker.RETRY_BACKOFF),
        ("", "never", "", NO_BLOCKERS),
        ("", "refused", "", Blocker.RETRY_BACKOFF),
        (PREEMPT, "signalled", "", NO_BLOCKERS),
        (PREEMPT, "saved", "", NO_BLOCKERS),
        (PREEMPT, "done", "COMPLETED", NO_BLOCKERS),  # it had ended before the signal
        (PREEMPT, "bad", "FAILED", NO_BLOCKERS),
        (PREEMPT, "lost", "", NO_BLOCKERS),
        (HOLD, "signalled", "", Blocker.HELD),
        (HOLD, "bad", "", Blocker.HELD),
        (HOLD, "never", "", Blocker.HELD),
        (HOLD, "refused", "", Blocker.HELD),
        (HOLD, "done", "COMPLETED", NO_BLOCKERS),
        (CANCEL, "done", "CANCELLED", NO_BLOCKERS),
        (CANCEL, "lost", "CANCELLED", NO_BLOCKERS),
        (TIME_UP, "signalled", "TIMEOUT", NO_BLOCKERS),
    ],
)
def test_what_an_end_means(asked: str, end: str, state: str, blockers: Blocker) -> None:
    found = outcome(job(asked), ENDS[end], 100.0, Backoff())
    assert (found.state.name if found.state else "", found.blockers) == (state, blockers)


def test_a_job_that_said_it_was_done_is_done_even_under_a_stop() -> None:
    finished = job(PREEMPT)
    finished.progress = JobProgress(step=9, total=9)
    assert outcome(finished, ENDS["saved"], 0.0, Backoff()).state == JobState.COMPLETED
    assert outcome(finished, ENDS["signalled"], 0.0, Backoff()).state is None


def test_retries_end_and_back_off_grows_to_its_bound() -> None:
    retry = {"on": ["failure"], "max": 2}
    again = outcome(job(failures=1, retry=retry), ENDS["bad"], 100.0, Backoff())
    assert (again.state, again.data["failures"], again.not_before) == (None, 2, 120.0)
    assert outcome(job(failures=2, retry=retry), ENDS["bad"], 100.0, Backoff()).state == JobState.FAILED
    assert outcome(job(retry=retry), ENDS["lost"], 100.0, Backoff()).state == JobState.FAILED
    assert [Backoff().after(n) for n in (1, 2, 3, 6, 1000)] == [10.0, 20.0, 40.0, 300.0, 300.0]


def test_a_job_file_may_say_on_what_to_retry(tmp_path) -> None:
    """In YAML 1.1, `on` would be a truth value and the file be refused."""
    path = tmp_path / "job.yaml"
    path.write_text("run: x\nretry: {on: [failure, node_failure], max: 2}\ntime_limit: 24h\npreemptible: yes\n")
    spec = read_yaml(path, JobSpec, "job file")
    assert (spec.retry.on, spec.retry.max, spec.preemptible) == (("failure", "node_failure"), 2, True)
    assert job_spec(spec.model_dump(mode="json", exclude_unset=True)) == spec
    path.write_text("run: x\nresources:\n  acelerators: 2\n")
    with pytest.raises(BadInput, match=r"job.yaml, line 3: unknown key 'acelerators': did you mean 'accelerators'"):
        read_yaml(path, JobSpec, "job file")
