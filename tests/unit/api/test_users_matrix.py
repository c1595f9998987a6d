"""docs/users.md, cell by cell: two accounts of this machine on one manager run by root."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import pytest

from headway.cluster.queues import Access, Queue, Queues
from headway.live.http import streams
from headway.live.http.api import make_api
from headway.live.http.tokens import Scope, Tokens
from headway.live.measures import Mishap

PAGE = Path(__file__).parents[3] / "docs" / "users.md"
CALLERS = {
    "owner": "owner",
    "operator": "operator",
    "ada": "ada",
    "ada reads": "ada-reads",
    "her job": "job",
    "after it": "ended",
    "bob": "bob",
    "nobody": "wrong",
}


def table(title: str) -> dict[str, dict[str, str]]:
    """A table of the page: what each column says in each row."""
    part = PAGE.read_text("utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    head, _, *body = rows
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in body}


SECRET = "adas-value"  # of a variable of the job's
QUEUES = Queues("q.yaml", (Queue("default"), Queue("adas", access=Access(users=("nobody",)))), others="default")
PAGES = {"/", "/web/{folder}/{path:path}"}  # of the dashboard: the same for everybody
API, MACHINE = table("Through the API"), table("On the machine")


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest) -> Iterator[Any]:
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: only a manager run by root runs jobs as other users")
    import tempfile

    conftest = request.config.pluginmanager
    serve = next(
        plugin.serve
        for plugin in conftest.get_plugins()
        if str(getattr(plugin, "__file__", "")).endswith("unit/api/conftest.py")
    )
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        for served in serve(Path(folder) / "data", drained=False, queues=QUEUES):
            served.running = served.submit(
                "ada",
                command=["sleep", "600"],
                preemption={"grace": 0},
                workdir="/",
                resources={"memory": 0.5},
                envs={"KEY": SECRET},
            )
            ended = served.ended = served.submit("ada", command=["true"], workdir="/")
            served.tokens["ended"] = served.job_token(ended)
            served.until(ended, "COMPLETED")
            served.until(served.running, "RUNNING")
            served.tokens["requeued"] = served.job_token(served.running)
            served.ask("POST", f"/v1/jobs/{served.running}/requeue?hold=true")
            served.until(served.running, "HELD")
            served.ask("POST", f"/v1/jobs/{served.running}/release")
            served.until(served.running, "RUNNING")
            yield served
            served.ask("POST", f"/v1/jobs/{served.running}/cancel")


# ---- through the API


def outcome(answer: Any) -> str:
    return {401: "unknown", 403: "no", 404: "hidden"}.get(answer.status_code, "yes")


def reading(path: str) -> Callable[[Any, str], str]:
    return lambda served, who: outcome(served.ask("GET", path.format(served.running), who))


def acting(verb: str, **given: Any) -> Callable[[Any, str], str]:
    """On a fresh job of ada's; `her job` is then that one's own token."""

    def act(served: Any, who: str) -> str:
        number = served.submit("ada", command=["sleep", "600"], preemption={"grace": 0}, workdir="/")
        if who == "job":
            served.until(number, "STARTING", "RUNNING")
            served.job_token(number)
        found = outcome(served.ask("POST", f"/v1/jobs/{number}/{verb}", who, **given))
        served.ask("POST", f"/v1/jobs/{number}/cancel")
        return found

    return act


def submitting(path: str, **more: Any) -> Callable[[Any, str], str]:
    def submit(served: Any, who: str) -> str:
        fields = {"after": [served.running]} if more.get("after") else {}
        body = {"command": ["true"], "workdir": "/", "queue": more.get("queue", ""), **fields}
        answer = served.ask("POST", path, who, json=body)
        if answer.status_code == 201:
            served.ask("POST", f"/v1/jobs/{answer.json()['job_id']}/cancel")
        if answer.status_code == 422:
            assert f"there is no job {served.running}" in answer.json()["detail"]
            return "hidden"
        return outcome(answer)

    return submit


def listed_by(path: str) -> Callable[[Any, str], str]:
    """Whether an answer with a list of jobs has it."""

    def look(served: Any, who: str) -> str:
        answer = served.ask("GET", path, who)
        if answer.status_code != 200:
            return outcome(answer)
        return "yes" if served.running in [job["job_id"] for job in answer.json()["jobs"]] else "hidden"

    return look


def on_node(served: Any, who: str) -> str:
    answer = served.ask("GET", "/v1/nodes", who)
    if answer.status_code != 200:
        return outcome(answer)
    return "yes" if any(served.running in node["jobs"] for node in answer.json()["nodes"]) else "hidden"


def in_events(served: Any, who: str) -> str:
    """Read the stream up to an event of bob's, which everybody sees who does not see only ada's jobs, or up to one of hers."""
    caller = Tokens(served.data, "root").caller(served.tokens[who])
    if caller is None or not caller.scope.covers(Scope.READ):
        return outcome(served.ask("GET", "/v1/events", who))
    later = served.submit("bob", command=["true"], workdir="/", hold=True)

    async def read() -> str:
        async for part in streams.server_sent(served.manager, caller, 0):
            event = json.loads(part.partition(b"data: ")[2] or b"{}")
            if event.get("job_id") in {served.running, later}:
                return "yes" if event["job_id"] == served.running else "hidden"
        raise AssertionError("the stream ended")

    found = asyncio.run(read())
    served.ask("POST", f"/v1/jobs/{later}/cancel")
    return found


def its_environment(served: Any, who: str) -> str:
    answer = served.ask("GET", f"/v1/jobs/{served.running}", who)
    if answer.status_code != 200:
        return outcome(answer)
    assert "KEY" in answer.json()["spec"]["envs"]
    return "yes" if SECRET in answer.text else "hidden"


def on_nodes(verb: str) -> Callable[[Any, str], str]:
    def act(served: Any, who: str) -> str:
        node = served.manager.cluster.nodes[1]
        found = outcome(served.ask("POST", f"/v1/nodes/{node}/{verb}", who))
        served.ask("POST", f"/v1/nodes/{node}/resume")
        return found

    return act


def reserving(served: Any, who: str) -> str:
    asked = {"nodes": [served.manager.cluster.nodes[1]], "queue": "vision", "from": 0.0, "to": 4e9}
    return outcome(served.ask("POST", "/v1/reservations", who, json=asked))


def unreserving(served: Any, who: str) -> str:
    return outcome(served.ask("DELETE", f"/v1/nodes/{served.manager.cluster.nodes[1]}/reservation", who))


def among_many(served: Any, who: str) -> str:
    number = served.submit("ada", command=["sleep", "600"], preemption={"grace": 0}, workdir="/")
    answer = served.ask("POST", "/v1/actions", who, json={"verb": "cancel", "job_ids": [number]})
    served.ask("POST", f"/v1/jobs/{number}/cancel")
    if answer.status_code != 200:
        return outcome(answer)
    refused = [each["status"] for each in answer.json()["refused"]]
    assert refused in ([], [404])
    return "hidden" if refused else "yes"


def replayed(served: Any, who: str) -> str:
    """There may be nothing to replay."""
    return outcome(served.ask("POST", "/v1/replay", who, json={"policies": ["fifo"]}))


def names_queue(path: str) -> Callable[[Any, str], str]:
    """Whether an answer has the name that ada gave the queue of a job, which waits."""

    def look(served: Any, who: str) -> str:
        held = served.submit("ada", command=["true"], workdir="/", queue="adas-secret", hold=True)
        answer = served.ask("GET", path, who)
        served.ask("POST", f"/v1/jobs/{held}/cancel")
        if answer.status_code != 200:
            return outcome(answer)
        assert "other" in answer.text or "adas-secret" in answer.text  # it is counted
        return "yes" if "adas-secret" in answer.text else "hidden"

    return look


def last_errors(served: Any, who: str) -> str:
    """Shown to those who operate; there is one to be shown."""
    told = replace(served.manager.health(), last_errors=(Mishap(0.0, "the disk was full"),))
    with patch.object(served.manager, "health", lambda: told):
        answer = served.ask("GET", "/v1/health", who)
    if answer.status_code != 200:
        return outcome(answer)
    return "yes" if answer.json()["last_errors"] else "no"


def asking(path: str) -> Callable[[Any, str], str]:
    return lambda served, who: outcome(served.ask("POST", path, who))


def signing_in(served: Any, who: str) -> str:
    """With the token as the secret; the session then allows what the token does."""
    answer = served.ask("POST", "/v1/sign-in", "", json={"secret": served.tokens[who]})
    if answer.status_code == 200:
        me = [
            served.client.get("/v1/me", headers={"Authorization": f"Bearer {secret}"})
            for secret in (answer.json()["session"], served.tokens[who])
        ]
        assert me[0].json() == me[1].json()
    return outcome(answer)


ASKED: dict[str, Callable[[Any, str], str]] = {
    "see it in the list": listed_by("/v1/jobs?limit=1000"),
    "show it": reading("/v1/jobs/{}"),
    "see the values of its environment": its_environment,
    "explain it": reading("/v1/jobs/{}/explain"),
    "read its logs": reading("/v1/jobs/{}/logs"),
    "see its events": in_events,
    "see it on its node": on_node,
    "see it in the history": listed_by("/v1/history?limit=1000"),
    "see it in the queue": listed_by("/v1/queue?limit=500"),
    "see it in the overview": listed_by("/v1/overview"),
    "see which links it has": listed_by("/v1/network"),
    "read its story": reading("/v1/jobs/{}/story"),
    "cancel it": acting("cancel"),
    "cancel it among many": among_many,
    "hold it": acting("hold"),
    "release it": acting("release"),
    "requeue it": acting("requeue"),
    "report its progress": acting("progress", json={"attempt": 1, "step": 1}),
    "submit a job after it": submitting("/v1/jobs", after=True),
    "submit a job": submitting("/v1/jobs"),
    "submit a job to a queue that admits ada": submitting("/v1/jobs", queue="adas"),
    "ask when a job would start": submitting("/v1/dry-run"),
    "ask when a job would start in that queue": submitting("/v1/dry-run", queue="adas"),
    "see how full the nodes are": reading("/v1/nodes"),
    "see what the queues of teams use": reading("/v1/queues"),
    "see which nodes are kept for queues": reading("/v1/reservations"),
    "see the counts of all jobs": reading("/v1/status"),
    "see the name of its queue in the metrics": names_queue("/metrics"),
    "see the name of its queue in the manager's health": names_queue("/v1/health"),
    "read the metrics": reading("/metrics"),
    "see how the manager is doing": reading("/v1/health"),
    "see its last errors": last_errors,
    "drain a node": on_nodes("drain"),
    "resume a node": on_nodes("resume"),
    "keep a node for a queue": reserving,
    "keep a node no longer": unreserving,
    "take the workload for a replay": reading("/v1/workload"),
    "see what would have been": replayed,
    "see how full the cluster was": reading("/v1/trend"),
    "see the policies": reading("/v1/policies"),
    "see why jobs can wait": reading("/v1/reasons"),
    "get a code for the dashboard": asking("/v1/codes"),
    "sign in with the token": signing_in,
    "sign out": asking("/v1/sign-out"),
    "ask whose token it is": reading("/v1/me"),
    "ask whether the manager is well": reading("/healthz"),
    "open the dashboard's page": reading("/"),
    "read the description of the API": reading("/openapi.json"),
}


@pytest.mark.parametrize("row", list(API))
def test_the_token_of_an_earlier_attempt_is_worth_nothing(shared: Any, row: str) -> None:
    assert ASKED[row](shared, "requeued") == API[row]["after it"]


@pytest.mark.parametrize("row", list(API))
def test_through_the_api(shared: Any, row: str) -> None:
    found = {}
    for column, who in CALLERS.items():
        if who == "job":
            shared.job_token(shared.running, 2)
        found[column] = ASKED[row](shared, who)
    assert found == API[row]


def test_every_action_of_the_api_is_in_the_table() -> None:
    assert set(ASKED) == set(API)
    # A new route belongs into the table: this list is what the rows above ask for.
    routes = {route.path for route in make_api(MagicMock()).routes} - {"/openapi.json"}
    about = {"", "/explain", "/logs", "/progress", "/cancel", "/hold", "/release", "/requeue", "/story"}
    verbs = {f"/v1/jobs/{{job_id}}{each}" for each in about} | {"/v1/jobs", "/v1/dry-run", "/v1/actions", "/v1/history"}
    nodes = {"/v1/nodes", *(f"/v1/nodes/{{node}}/{what}" for what in ("drain", "resume", "reservation"))}
    nodes |= {"/v1/queues", "/v1/reservations"}
    watching = {
        f"/v1/{name}" for name in ("overview", "queue", "network", "trend", "policies", "replay", "me", "reasons")
    } | PAGES
    watching |= {"/v1/codes", "/v1/sign-in", "/v1/sign-out"}
    rest = {"/v1/events", "/v1/status", "/v1/health", "/v1/workload", "/metrics", "/healthz"}
    assert routes == verbs | nodes | watching | rest
    words = {cell for row in API.values() for cell in row.values()}
    assert words == {"yes", "no", "hidden", "unknown"}


def test_no_list_has_the_values_of_an_environment(shared: Any) -> None:
    """Not even for those who operate."""
    for path in (
        "/v1/jobs?limit=1000",
        "/v1/history?limit=1000",
        "/v1/workload",
        "/v1/queue?limit=500",
        "/v1/overview",
    ):
        for who in ("owner", "operator"):
            assert SECRET not in shared.ask("GET", path, who).text
    assert SECRET not in json.dumps([row.data for row in shared.manager.events(0)])


# ---- on the machine: each line is tried by a shell in a job

TRIED = {
    "read the owner's token": "cat $DATA/token",
    "read the hashes of tokens": "cat $DATA/tokens.json",
    "read the secret of job tokens": "cat $DATA/job-secret",
    "read the journal": "cat $DATA/journal.db || cat $DATA/journal.db-wal",
    "list the data folder": "ls $DATA",
    "list the folders of runs": "ls $DATA/runs || ls $RUN",
    "read what is run (launch.json)": "cat $RUN/launch.json",
    "read its processes (ranks.json)": "cat $RUN/ranks.json || cat $RUN/shim.json",
    "read how one ended (exit.json)": "cat $ENDED/exit.json",
    "read its log in the folder": "cat $RUN/rank-0.log",
    "ask it to stop through its folder": "echo '{}' > $RUN/stop.json",
    "put another folder in place of the job's own": "mv $RUN/own $RUN/away && mv $RUN/away $RUN/own",
    "see the job's own folder": "ls $RUN/own",
    "write its report": "touch $RUN/own/noted",
    "read its environment and token": "grep -q HEADWAY_TOKEN /proc/$RANK_PID/environ",
    "read the environment of its shim": "cat /proc/$SHIM_PID/environ",
    "read the environment of the manager": "cat /proc/$MANAGER_PID/environ",
    "signal its processes": "kill -0 $RANK_PID",
    "signal its shim": "kill -0 $SHIM_PID",
    "signal the manager": "kill -0 $MANAGER_PID",
    "change its memory limit": "echo 400000000 > $GROUP/memory.limit_in_bytes || echo 400000000 > $GROUP/memory.max",
    "leave its own control group": "echo 0 > $GROUP/../../cgroup.procs",
    "open /dev/stderr": "echo x > /dev/stderr",
    "find root's programs in PATH": "echo $PATH | grep -q sbin",
}


def test_everything_on_the_machine_is_in_the_table() -> None:
    assert set(TRIED) == set(MACHINE)


def tried(shared: Any, who: str) -> dict[str, str]:
    """What a job can do to ada's."""
    run = shared.data / "runs" / str(shared.running) / "2"
    rank = json.loads((run / "ranks.json").read_text())["pids"][0][0]
    shim = json.loads((run / "shim.json").read_text())["pid"]
    groups = json.loads((run / "launch.json").read_text())["cgroup"] or ["/sys/fs/cgroup/none"]
    group = next((each for each in groups if "/memory/" in each), groups[0])
    ended = shared.data / "runs" / str(shared.ended) / "1"
    about = {"RUN": run, "ENDED": ended, "RANK_PID": rank, "SHIM_PID": shim, "MANAGER_PID": os.getpid(), "GROUP": group}
    envs = {name: str(value) for name, value in {"DATA": shared.data, **about}.items()}
    lines = [f"if ( {words} ) > /dev/null 2>&1; then echo yes; else echo no; fi" for words in TRIED.values()]
    lines[list(TRIED).index("open /dev/stderr")] = "( echo x > /dev/stderr ) && echo yes || echo no"
    number = shared.submit(who, command=["sh", "-c", "\n".join(lines)], envs=envs, workdir="/")
    assert shared.until(number, "COMPLETED", "FAILED")["state"] == "COMPLETED"
    log = shared.ask("GET", f"/v1/jobs/{number}/logs", who).text
    return dict(zip(TRIED, [line for line in log.split() if line in {"yes", "no"}], strict=True))


@pytest.mark.parametrize("column", ["ada", "bob"])
def test_on_the_machine(shared: Any, column: str) -> None:
    assert tried(shared, column) == {row: cells[column] for row, cells in MACHINE.items()}


def test_what_is_tried_would_work_for_root(shared: Any) -> None:
    """So that a `no` is the system's answer, and not a mistake in the question."""
    found = tried(shared, "owner")
    # Root's PATH is as it is; leaving a group upwards is refused by version 2 for everybody.
    for row in ("find root's programs in PATH", "leave its own control group"):
        del found[row]
    assert set(found.values()) == {"yes"}, found
