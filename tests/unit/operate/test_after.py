"""Dependencies, steps of arrays, output files, prologs and epilogs, types of GPUs and features."""

import os
import pwd
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.unit.operate.conftest import Served
from tests.waiting import gate, wait_for

from headway.cluster.demands import check_possible, demand_of
from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.live.errors import JournalFailed
from headway.live.executors import Capabilities
from headway.live.jobfile.spec import array_tasks, job_spec
from headway.live.state.site import Site
from headway.live.store.journal import Journal

pytestmark = pytest.mark.xdist_group("live")


@pytest.mark.parametrize(
    ("kind", "first", "state", "words"),
    [
        ("ok", "true", "COMPLETED", ""),
        ("ok", "false", "CANCELLED", "job 1, which it was to follow, ended as FAILED"),
        ("any", "true", "COMPLETED", ""),
        ("any", "false", "COMPLETED", ""),
        ("notok", "false", "COMPLETED", ""),
        ("notok", "true", "CANCELLED", "job 1 completed, and it was to run only if that did not"),
    ],
)
def test_a_job_follows_another_as_it_asked(
    serve: Callable[..., Served], tmp_path: Path, kind: str, first: str, state: str, words: str
) -> None:
    served = serve()
    before = served.submit(run=f"{gate(tmp_path / 'go')}; {first}")
    early = served.submit(after=[f"{kind}:{before}"])
    assert "job 1" in served.explained(early, "dependency").message
    (tmp_path / "go").touch()
    assert (served.until(early).state, served.until(early).message) == (state, words)
    assert served.until(early).started_at is None or served.until(early).started_at >= served.until(before).ended_at  # type: ignore[operator]
    late = served.submit(after=[f"{kind}:{before}"])  # when it has ended already
    assert (served.until(late).state, served.until(late).message) == (state, words)


def test_explain_says_how_each_job_must_end(serve: Callable[..., Served]) -> None:
    """A singleton was said to need jobs of other names; kinds together had no words."""
    served = serve("1x4")
    first, other, twin = (served.submit(name=name, hold=True) for name in ("first", "other", "twin"))
    single = served.submit(name="twin", after=["singleton", first])
    mixed = served.submit(after=[f"notok:{first}", f"any:{other}"])
    assert served.explained(single, "dependency").message == (
        f"job {first} must complete first; it is a singleton: earlier jobs of its user and name must end first: job {twin}"
    )
    assert served.explained(mixed, "dependency").message == (
        f"job {first} must fail or be cancelled first; job {other} must end first"
    )
    for job in (first, other, twin):
        served.manager.cancel(job)


def test_a_job_that_is_cancelled_does_not_wait_again(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    saves = f"trap '{gate(tmp_path / 'go')}; exit 0' TERM; touch {tmp_path / 'on'}; while true; do sleep 0.1; done"
    job = served.submit(run=saves, preemption={"grace": 300})
    wait_for((tmp_path / "on").exists)
    served.manager.cancel(job)
    served.until(job, "STOPPING")
    assert served.manager.explain(job).message == "it is being cancelled"
    (tmp_path / "go").touch()
    assert served.until(job).state == "CANCELLED"


def test_a_refused_cancel_says_why_the_job_still_stops(serve: Callable[..., Served], tmp_path: Path) -> None:
    """Without its journal the manager takes no cancel, though the job is on its way to be stopped."""
    served = serve()
    job = served.submit(run=f"trap '' TERM; {gate(tmp_path / 'go')}", preemption={"grace": 300})
    served.until(job, "RUNNING")
    for path in (tmp_path / "data").glob("journal.db*"):
        path.unlink()
    with pytest.raises(JournalFailed, match="was removed or replaced"):
        served.manager.cancel(job)
    message = served.manager.explain(job).message
    assert "journal.db was removed or replaced under the running manager" in message
    assert "waits again" not in message
    (tmp_path / "go").touch()


def test_nodes_needed_when_no_node_takes_jobs(serve: Callable[..., Served]) -> None:
    served = serve("2x2")
    for node in ("n000", "n001"):
        served.manager.drain(node)
    job = served.submit()
    assert served.explained(job, "node_down").numbers["nodes_needed"] == 1
    served.manager.cancel(job)


def test_not_ok_of_an_array_means_that_some_task_failed(serve: Callable[..., Served]) -> None:
    served = serve()
    array = served.submit(run="test $HEADWAY_ARRAY_INDEX != 1", array="0-2")
    cleans = served.submit(after=[f"notok:{array}"])
    assert served.until(cleans).state == "COMPLETED"
    ends = [served.until(task).ended_at or 0.0 for task in range(array, array + 3)]
    assert (served.until(cleans).started_at or 0.0) >= max(ends)


def test_what_can_no_longer_come_true_is_cancelled_at_once(serve: Callable[..., Served], tmp_path: Path) -> None:
    """Also while it waits for others: it was looked at only when all of them had ended."""
    served = serve()
    held, first = served.submit(hold=True), served.submit(run=gate(tmp_path / "go"))
    array = served.submit(run="true", array="0-2")
    follower = served.submit(after=[f"any:{held}", f"notok:{first}"])
    of_array = served.submit(after=[f"any:{held}", f"notok:{array}"])
    later = served.submit(after=[f"any:{held}", f"notok:{held}"])
    (tmp_path / "go").touch()
    for job, other in ((follower, first), (of_array, array)):
        view = served.until(job)
        assert (view.state, view.message) == (
            "CANCELLED",
            f"job {other} completed, and it was to run only if that did not",
        )
    assert served.until(later, "PENDING").state == "PENDING"
    served.manager.cancel(held)
    assert served.until(later).state == "COMPLETED"


def test_all_needs_must_come_true(serve: Callable[..., Served]) -> None:
    served = serve("1x4")
    good, bad = served.submit(run="true"), served.submit(run="sleep 0.3")
    job = served.submit(after=[f"notok:{good}", f"any:{bad}"])
    assert served.until(job).state == "CANCELLED"
    assert "job 1 completed" in served.until(job).message


def test_singletons_of_one_name_run_one_after_another(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve("1x4")
    run = gate(tmp_path / "go")
    jobs = [served.submit(name="one", run=run, after=["singleton"]) for _ in range(3)]
    other = served.submit(name="two", after=["singleton"])
    assert "singleton" in served.explained(jobs[2], "dependency").message
    served.until(other)
    (tmp_path / "go").touch()
    views = [served.until(job) for job in jobs]
    assert {view.state for view in views} == {"COMPLETED"}
    for before, after in pairwise(views):
        assert (after.started_at or 0) >= (before.ended_at or 0)
    assert (served.until(other).started_at or 0) < (views[0].ended_at or 0)


def test_dependencies_survive_a_restart(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    first = served.submit(run=f"{gate(tmp_path / 'go')}; false")
    jobs = [served.submit(after=[f"{kind}:{first}"]) for kind in ("ok", "any", "notok")]
    served.until(first, "RUNNING")
    served.manager.stop()
    served = serve()
    (tmp_path / "go").touch()
    assert [served.until(job).state for job in jobs] == ["CANCELLED", "COMPLETED", "COMPLETED"]


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_job_that_has_followed_another_is_not_cancelled_when_that_runs_again_and_fails(
    serve: Callable[..., Served], tmp_path: Path, snapshot: bool
) -> None:
    """After a restart it was, though it ran: its processes went on, on a GPU that was given to others."""
    first = serve()
    (tmp_path / "good").touch()
    before = first.submit(run=f"test -e {tmp_path}/good")
    runs = first.submit(run="sleep 600", after=[before])
    first.until(runs, "RUNNING")
    first.manager.stop()
    if not snapshot:
        journal = Journal(first.manager.data)
        journal.commit(lambda connection: connection.execute("DELETE FROM snapshots"))
        journal.close()
    (tmp_path / "good").unlink()
    again = serve()
    again.manager.requeue(before)
    assert again.until(before).state == "FAILED"
    assert again.until(runs, "RUNNING").state == "RUNNING"


def test_a_long_chain_ends_as_one(serve: Callable[..., Served], tmp_path: Path) -> None:
    """Every job of it took the engine one call deeper: the manager of everybody stopped, and again after every restart."""
    served = serve()
    first = served.submit(run=f"{gate(tmp_path / 'go')}; false")
    chain = [first]
    for _ in range(1100):
        chain.append(served.submit(after=[chain[-1]]))
    (tmp_path / "go").touch()
    assert served.until(first).state == "FAILED"
    assert {served.until(job).state for job in chain[1:]} == {"CANCELLED"}
    assert served.until(served.submit()).state == "COMPLETED"


def test_who_follows_two_that_are_cancelled_is_cancelled_once(serve: Callable[..., Served]) -> None:
    served = serve()
    first = served.submit(hold=True)
    both = [served.submit(after=[first]) for _ in range(2)]
    last = served.submit(after=both)
    served.manager.cancel(first)
    assert served.until(last).message == f"job {both[0]}, which it was to follow, ended as CANCELLED"
    assert [row.kind for row in served.manager.events(0) if row.job == last].count("Ended") == 1


def test_what_is_no_dependency_is_refused() -> None:
    for wrong in ("later:3", "any", "any:0", 0, True, "ok:x"):
        with pytest.raises(BadInput, match="after"):
            job_spec({"run": "true", "after": [wrong]})


def test_arrays_have_steps() -> None:
    assert array_tasks("0-20:5,3%2") == ([0, 3, 5, 10, 15, 20], 2)
    assert len(array_tasks("0-999999:10")[0]) == 100_000
    for wrong in ("0-9:0", "5:2", "0-9:", "0-9:-1"):
        with pytest.raises(ValueError, match="is not an array"):
            array_tasks(wrong)


def test_the_output_is_copied_to_a_file_of_the_users(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    array = served.submit(
        name="out",
        run="echo $HEADWAY_ARRAY_INDEX; echo err >&2",
        array="4-5",
        workdir=str(tmp_path),
        output="%x-%A-%a.txt",
    )
    for task in (array, array + 1):
        assert served.until(task).state == "COMPLETED"
        text = f"{task - array + 4}\nerr\n"
        assert (tmp_path / f"out-{array}-{task - array + 4}.txt").read_text() == text
        assert served.manager.log_files(task, 1)[0].read_text() == text
    failed = served.submit(output="/nowhere/at/all")
    assert served.until(failed).state == "FAILED"
    assert "cannot write its output to /nowhere/at/all: No such file" in served.until(failed).message


def test_an_executor_that_copies_no_logs_refuses_an_output(serve: Callable[..., Served]) -> None:
    served = serve()
    served.manager._executor.capabilities = Capabilities()  # type: ignore[misc]
    with pytest.raises(BadInput, match="output: this executor does not copy logs"):
        served.submit(output="out.txt")


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_operators_programs_run_around_every_job(serve: Callable[..., Served], tmp_path: Path) -> None:
    said = tmp_path / "said"
    prolog = program(tmp_path / "prolog", f"echo before $HEADWAY_JOB_ID on $HEADWAY_NODES gpus $HEADWAY_GPUS >> {said}")
    epilog = program(tmp_path / "epilog", f"echo after $HEADWAY_JOB_ID of $HEADWAY_USER >> {said}; exit 3")
    served = serve(site=Site(prolog=prolog, epilog=epilog))
    job = served.submit(run=f"echo inside >> {said}", resources={"accelerators": 2})
    view = served.until(job)
    assert view.state == "COMPLETED"
    assert said.read_text().splitlines() == ["before 1 on n000 gpus 0,1", "inside", f"after 1 of {view.user}"]
    assert "the epilog" in served.manager.health().last_errors[0].message


def test_a_job_whose_prolog_fails_is_tried_again_and_never_runs(serve: Callable[..., Served], tmp_path: Path) -> None:
    flag = tmp_path / "ready"
    prolog = program(tmp_path / "prolog", f"test -e {flag}")
    served = serve(site=Site(prolog=prolog))
    job = served.submit(run=f"echo x >> {tmp_path}/ran")
    wait_for(lambda: served.manager.health().errors)
    assert "failed with exit code 1" in served.manager.health().last_errors[0].message
    flag.touch()
    assert served.until(job).state == "COMPLETED"
    assert (tmp_path / "ran").read_text() == "x\n"


def test_a_manager_that_restarts_while_a_job_starts_leaves_it_its_control_group(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    """The group was empty until the ranks started, so it was taken away, and the job failed: it could not enter its control group."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    prolog = program(tmp_path / "prolog", f"touch {begun}; {gate(go)}")
    first = serve(site=Site(prolog=prolog))
    job = first.submit()
    wait_for(begun.exists)
    first.manager.stop()
    again = serve(site=Site(prolog=prolog))
    go.touch()
    assert again.until(job).state == "COMPLETED"
    assert again.manager.job(job).attempt == 1


def test_types_and_features_are_those_of_the_nodes(serve: Callable[..., Served]) -> None:
    served = serve(site=Site(gpu_type="A100", features=frozenset({"ib"})))
    assert served.until(served.submit(resources={"type": "a100"}, constraints=["ib", "A100"])).state == "COMPLETED"
    with pytest.raises(BadInput, match="asks for h100 GPUs, and this cluster has A100"):
        served.submit(resources={"type": "h100"})
    with pytest.raises(BadInput, match="no node here has nvlink; features: A100, ib"):
        served.submit(constraints=["nvlink"])
    with pytest.raises(BadInput, match="type of the GPUs here is not declared"):
        check_possible(cluster("1x2"), demand_of("a100", ()), 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED: only root can run jobs of another user")
def test_an_output_file_is_opened_with_the_rights_of_the_jobs_user(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder == tmp_path or folder.name.startswith(("pytest-", "popen-")):
            folder.chmod(0o755)
    private, open_to_all = tmp_path / "private", tmp_path / "open"
    private.mkdir(mode=0o700)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (open_to_all / "link").symlink_to(private / "target")
    served = serve()
    for path in (private / "out", open_to_all / "link"):
        job = served.submit("nobody", run="echo x", workdir="/", output=str(path))
        assert served.until(job).state == "FAILED"
        assert "Permission denied" in served.until(job).message
    job = served.submit("nobody", run="echo x", workdir="/", output=str(open_to_all / "%u-%j"))
    assert served.until(job).state == "COMPLETED", served.until(job).message
    written = open_to_all / f"nobody-{job}"
    assert written.read_text() == "x\n"
    assert written.stat().st_uid == pwd.getpwnam("nobody").pw_uid
    assert not list(private.iterdir())
