"""Access to Slurm by its commands: sbatch, scancel, scontrol, squeue, sinfo.

Each has a time-out, and none inherits the caller's SLURM_ options.
"""

import os
import pwd
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.slurm import answers, fixed
from headway.slurm.requests import Call, Cancel, Hold, JobUpdate, NoAnswer, Rejected, Request, Signal, Submit
from headway.slurm.snapshot import SlurmJob, SlurmSnapshot

LIMIT_S = 30.0
# What Slurm's commands say when it was not Slurm that said no (slurm_errno.c).
UNREACHABLE = (
    "unable to contact slurm controller",
    "socket timed out",
    "connection refused",
    "connection timed out",
    "transport endpoint",
    "zero bytes were transmitted",
    "unable to establish",
    "communication connection failure",
    "message receive failure",
    "message send failure",
    "munge encode failed",
    "protocol authentication error",
    "invalid authentication credential",
    "in standby mode",
    "network is unreachable",
    "resource temporarily unavailable",
    "header lengths are longer",
)
KEPT = ("SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS")


class Commands:
    """Fills the Door protocol by running commands."""

    def __init__(self, limit_s: float = LIMIT_S, json: bool = True, nices: bool = False) -> None:
        self.limit_s = limit_s
        self._json = json  # until an answer cannot be read
        self._nices = nices  # the JSON of 22.05 does not have them: who needs nice values asks once more

    def render(self, request: Request) -> Call:
        """The command line, and the script on its standard input."""
        match request:
            case Submit(script, options, user):
                words = [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]
                return Call(("sbatch", "--parsable", *words), script, user, bare=True)
            case Signal(job, name, step):
                where = str(job) if step is None else f"{job}.{step}"
                return Call(("scancel", f"--signal={name.removeprefix('SIG')}", where))
            case Cancel(jobs):
                return Call(("scancel", *map(str, jobs)))
            case JobUpdate(job, changed):
                return Call(
                    ("scontrol", "update", f"JobId={job}", *(f"{name}={value}" for name, value in changed.items()))
                )
            case Hold(job, release):
                return Call(("scontrol", "release" if release else "hold", job))

    def send(self, request: Request) -> str:
        """Run the command; for a submission the job's number."""
        answer = self._run(self.render(request)).decode(errors="replace").strip()
        return answer.partition(";")[0] if isinstance(request, Submit) else ""

    def poll(self) -> SlurmSnapshot:
        """Two commands: all nodes, then all jobs. JSON where Slurm prints it, the fixed format otherwise."""
        if self._json:
            try:
                nodes = answers.read_nodes(self._run(Call(("sinfo", "--json"))))
                jobs = answers.read_jobs(self._run(Call(("squeue", "--json"))))
                return SlurmSnapshot(self._with_nices(jobs) if self._nices else jobs, nodes)
            except (answers.Unreadable, Rejected):  # no JSON in this version, or another than we know
                self._json = False
        nodes = fixed.read_nodes(self._text("scontrol", "--oneliner", "--details", "show", "node"))
        return SlurmSnapshot(fixed.read_jobs(self._text("scontrol", "--oneliner", "--details", "show", "job")), nodes)

    def _with_nices(self, jobs: dict[int, SlurmJob]) -> dict[int, SlurmJob]:
        """The jobs that are still there, with their nice values."""
        rows = self._text("squeue", "--noheader", "--all", "--states=all", "--format=%A %y").splitlines()
        nices = {int(number): int(nice) for number, nice in (row.split() for row in rows)}
        return {number: replace(job, nice=nices[number]) for number, job in jobs.items() if number in nices}

    def show(self, what: str) -> str:
        """A line each; none is an answer too."""
        try:
            return self._text("scontrol", "--all", "--oneliner", "show", what)
        except Rejected:
            return ""

    def accounting(self, fields: tuple[str, ...], since: str) -> str:
        """What sacct knows of all jobs since then, a line per run; Refused where Slurm keeps no accounts."""
        how = ("--allocations", "--duplicates", "--allusers", "--noheader", "--parsable2")
        return self._text("sacct", *how, f"--starttime={since}", f"--format={','.join(fields)}")

    def _text(self, *words: str) -> str:
        return self._run(Call(words)).decode(errors="replace")

    def _run(self, call: Call) -> bytes:
        how: dict[str, Any] = {"env": _environment(os.environ, call.bare)}
        if call.user is not None:
            how["env"].pop("SLURM_JWT", None)  # it would be submitted as whoever the token is for
            try:
                who = pwd.getpwnam(call.user)
            except KeyError:
                raise Rejected(f"there is no user {call.user!r} on this machine any more") from None
            groups = os.getgrouplist(who.pw_name, who.pw_gid)
            how |= {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": groups, "cwd": "/"}
        try:
            done: subprocess.CompletedProcess[bytes] = subprocess.run(
                call.words, input=call.body.encode(), capture_output=True, timeout=self.limit_s, check=False, **how
            )
        except FileNotFoundError:
            raise Rejected(
                f"there is no command {call.words[0]} on this machine: install Slurm's client commands"
            ) from None
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"{call.words[0]} did not answer within {self.limit_s:g} s") from None
        except OSError as error:
            raise NoAnswer(f"{call.words[0]}: {error.strerror or error}") from None
        said = " ".join(done.stderr.decode(errors="replace").split())
        if done.returncode == 0:
            return done.stdout
        if any(words in said.lower() for words in UNREACHABLE):
            raise NoAnswer(f"{call.words[0]}: {said[:300]}")
        raise Rejected(f"{call.words[0]}: {said[:300] or f'exit code {done.returncode}'}")


def _environment(variables: Mapping[str, str], bare: bool) -> dict[str, str]:
    """The environment without options of Slurm's commands: a manager may itself run in a Slurm job."""
    if bare:
        return {name: value for name, value in variables.items() if name in KEPT or name == "PATH"}
    ours = ("SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "SCANCEL_", "SCONTROL_", "SRUN_")
    own_variables = {name: value for name, value in variables.items() if name in KEPT or not name.startswith(ours)}
    return {**own_variables, "LC_ALL": "C"}
