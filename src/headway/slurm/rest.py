"""Access to Slurm by slurmrestd: HTTP over a unix socket or TCP.

The commands are used for what it cannot do: act as another user, signal one step, show the topology."""

import http.client
import json
import os
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from headway.errors import BadInput
from headway.slurm import answers
from headway.slurm.commands import LIMIT_S, Commands
from headway.slurm.requests import Call, Cancel, JobUpdate, NoAnswer, Rejected, Request, Submit
from headway.slurm.snapshot import SlurmSnapshot

# Newest first; each is a plugin of slurmrestd, and sites choose which they load.
VERSIONS = ("v0.0.41", "v0.0.40", "v0.0.39", "v0.0.38", "v0.0.37")
# Until v0.0.38 the fields of a submission are sbatch's long options with underscores, but for these; from then on they have other names.
OLD = ("v0.0.37", "v0.0.38")
NAMES = {
    "job-name": "name",
    "output": "standard_output",
    "chdir": "current_working_directory",
    "constraint": "constraints",
}
NAMES |= {"ntasks-per-node": "tasks_per_node", "mem": "memory_per_node", "time": "time_limit"}
NEW_NAMES = {"gres": "tres_per_node", "nodelist": "required_nodes"}
WHOLE = {"cpus-per-task", "ntasks-per-node", "mem", "time"}
DROPPED = {"export", "no-requeue"}


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, limit_s: float) -> None:
        super().__init__("localhost", timeout=limit_s)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Rest:
    """Fills the Door protocol by slurmrestd at `unix:/path/to/socket` or `http://host:port`."""

    def __init__(self, address: str, limit_s: float = LIMIT_S) -> None:
        if not address.startswith(("unix:/", "http://")):
            raise BadInput(f"rest={address}: give unix:/path/to/slurmrestd.socket or http://host:port")
        self.address, self.limit_s, self.commands = address, limit_s, Commands(limit_s)
        self._version = ""
        # What slurmrestd does, it does as the account that it runs under, and never as root: root acts by the commands, and polls here.
        self.acts = os.geteuid() != 0

    def render(self, request: Request) -> Call:
        """Method, path and body."""
        if not self.acts:
            return self.commands.render(request)
        version = self._version or VERSIONS[-2]
        base = f"/slurm/{version}"
        match request:
            case Submit(script, options, None):
                body = {"script": script, "job": submission(options, version)}
                return Call(("POST", f"{base}/job/submit"), json.dumps(body))
            case Cancel((job,)):
                return Call(("DELETE", f"{base}/job/{job}"))
            case JobUpdate(job, changed):
                values = {name.lower(): int(value) for name, value in changed.items()}
                return Call(("POST", f"{base}/job/{job}"), json.dumps(values))
            case _:
                return self.commands.render(request)

    def send(self, request: Request) -> str:
        """Send it; for a submission the job's number."""
        self._find_version()
        if isinstance(request, Cancel) and len(request.jobs) != 1:
            for job in request.jobs:
                self.send(Cancel((job,)))
            return ""
        call = self.render(request)
        if not call.words[1].startswith("/slurm/"):
            return self.commands.send(request)
        answer = self._ask(call)
        if not isinstance(request, Submit):
            return ""
        try:
            return str(int(json.loads(answer)["job_id"]))
        except (ValueError, KeyError, TypeError):  # perhaps it was accepted
            raise NoAnswer(f"slurmrestd: the answer to a submission has no job_id: {answer[:200]!r}") from None

    def poll(self) -> SlurmSnapshot:
        """All nodes, then all jobs."""
        self._find_version()
        try:
            nodes = answers.read_nodes(self._ask(Call(("GET", f"/slurm/{self._version}/nodes"))))
            return SlurmSnapshot(answers.read_jobs(self._ask(Call(("GET", f"/slurm/{self._version}/jobs")))), nodes)
        except answers.Unreadable:
            return self.commands.poll()

    def show(self, what: str) -> str:
        """By the command: slurmrestd does not know the topology."""
        return self.commands.show(what)

    def _find_version(self) -> None:
        for version in () if self._version else VERSIONS:
            try:
                self._ask(Call(("GET", f"/slurm/{version}/ping")))
                self._version = version
                return
            except Rejected:
                continue
        if not self._version:
            raise Rejected(f"slurmrestd at {self.address} offers none of the versions {', '.join(VERSIONS)}")

    def _ask(self, call: Call) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token := os.environ.get("SLURM_JWT"):
            headers |= {"X-SLURM-USER-TOKEN": token, "X-SLURM-USER-NAME": os.environ.get("USER", "root")}
        connection = self._connection()
        try:
            connection.request(call.words[0], call.words[1], call.body or None, headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"slurmrestd at {self.address}: {error}") from None
        finally:
            connection.close()
        return _checked(answer, response.status, call)

    def _connection(self) -> http.client.HTTPConnection:
        if self.address.startswith("unix:"):
            return _UnixConnection(self.address.removeprefix("unix:"), self.limit_s)
        where = urlsplit(self.address)
        return http.client.HTTPConnection(where.hostname or "localhost", where.port, timeout=self.limit_s)


def _checked(answer: bytes, status: int, call: Call) -> bytes:
    if status < 400:
        return answer
    try:
        errors = [str(each.get("error") or each.get("description")) for each in json.loads(answer)["errors"]]
        said = "; ".join(errors)
    except (ValueError, KeyError, TypeError, AttributeError):
        said = answer[:200].decode(errors="replace")
    # A controller that is away is an error of the server; what it refuses is told in the same way, in its own words.
    away = status >= 502 or any(
        words in said.lower() for words in ("contact", "timed out", "connection", "communication")
    )
    raise (NoAnswer if away else Rejected)(f"slurmrestd: {call.words[0]} {call.words[1]}: {said or status}")


def submission(options: Mapping[str, str], version: str) -> dict[str, Any]:
    """sbatch's options as the fields of a submission."""
    old, job = version in OLD, dict[str, Any]()
    for name, value in options.items():
        if name in DROPPED:
            continue
        field = (
            NAMES.get(name, name.replace("-", "_")) if old else (NAMES | NEW_NAMES).get(name, name.replace("-", "_"))
        )
        if name == "nodes":
            job["nodes"] = [int(value), int(value)] if old else value
        elif name == "gres" and not old:
            job[field] = f"gres/{value}"
        elif name == "nodelist" and not old:
            job[field] = value.split(",")
        else:
            job[field] = int(value) if name in WHOLE else value
    environment = {"PATH": os.environ.get("PATH", os.defpath)}  # to find srun; the script sets the job's own
    return {
        **job,
        "requeue": False,
        "environment": environment if old else [f"{k}={v}" for k, v in environment.items()],
    }
