"""The fixed format: one line per job and per node, as `scontrol --oneliner show` has printed them for many years.

Used where Slurm prints no JSON, or JSON in a form that is not known here.
"""

import re
from datetime import datetime

from headway.errors import BadInput
from headway.io.numbers import plain_whole
from headway.slurm.answers import Unreadable, gpus_in
from headway.slurm.hostlist import expand
from headway.slurm.snapshot import ANYBODY, Share, SlurmJob, SlurmNode

NOTHING = ("(null)", "N/A", "None", "Unknown", "")
# Words of a line begin with a name and an equals sign; values may hold blanks (comments, reasons).
_FIELD = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=")
_DETAIL = re.compile(r"Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)")


def fields(line: str) -> dict[str, str]:
    """The fields of a line, the first of a name."""
    marks = list(_FIELD.finditer(line))
    values: dict[str, str] = {}
    for k, mark in enumerate(marks):
        end = marks[k + 1].start() if k + 1 < len(marks) else len(line)
        values.setdefault(mark[1], line[mark.end() : end].strip())
    return {name: "" if value in NOTHING else value for name, value in values.items()}


def read_jobs(answer: str) -> dict[int, SlurmJob]:
    """Jobs by number, of `scontrol --oneliner --details show job`."""
    try:
        jobs = [_job(line) for line in answer.splitlines() if line.startswith("JobId=")]
    except (KeyError, ValueError, BadInput) as error:
        raise Unreadable(f"a job in scontrol's answer cannot be read: {error!r}") from None
    return {job.id: job for job in jobs}


def read_nodes(answer: str) -> tuple[SlurmNode, ...]:
    """Nodes, of `scontrol --oneliner --details show node`."""
    try:
        return tuple(_node(line) for line in answer.splitlines() if line.startswith("NodeName="))
    except (KeyError, ValueError) as error:
        raise Unreadable(f"a node in scontrol's answer cannot be read: {error!r}") from None


def _node(line: str) -> SlurmNode:
    values = fields(line)
    gpus, kind = gpus_in(values.get("Gres", ""))
    words = re.split(r"[+]", values["State"].upper())
    return SlurmNode(
        name=values["NodeName"],
        address=values.get("NodeAddr") or values["NodeName"],
        gpus=gpus,
        gpu_type=kind,
        gpus_used=gpus_in(values.get("GresUsed", ""))[0],
        cpus=int(values.get("CPUTot") or 1),
        memory_mb=int(values.get("RealMemory") or 0),
        features=tuple(filter(None, values.get("AvailableFeatures", "").split(","))),
        partitions=tuple(filter(None, values.get("Partitions", "").split(","))),
        # An asterisk: it does not answer.
        state=tuple(word.rstrip("*~#!%$@^-") for word in words)
        + (("NOT_RESPONDING",) if "*" in values["State"] else ()),
        reason=values.get("Reason", ""),
    )


def _job(line: str) -> SlurmJob:
    values = fields(line)
    nodes = _whole(values.get("NumNodes", "1")) or 1
    shares = _shares(line, values)
    code, _, signal = values.get("ExitCode", "0:0").partition(":")
    return SlurmJob(
        id=int(values["JobId"]),
        state=values["JobState"],
        comment=values.get("Comment", ""),
        name=values.get("JobName", ""),
        user=values.get("UserId", "").partition("(")[0],
        uid=_uid(values.get("UserId", "")),
        partition=values.get("Partition", ""),
        reason=values.get("Reason", ""),
        shares=shares,
        node_count=nodes,
        gpus=sum(share.gpus for share in shares.values()) or _asked(values, nodes),
        exit_code=128 + int(signal) if signal.isdigit() and int(signal) else int(code or 0),
        submitted=_moment(values.get("SubmitTime", "")),
        eligible=_moment(values.get("EligibleTime", "")),
        started=_moment(values.get("StartTime", "")),
        ended=_moment(values.get("EndTime", "")),
        limit_s=_seconds(values.get("TimeLimit", "")),
        nice=int(values.get("Nice") or 0),
        priority=int(values.get("Priority") or 0),
        restarts=int(values.get("Restarts") or 0),
        array=int(values.get("ArrayJobId") or 0),
        het=int(values.get("HetJobId") or 0),
    )


def _asked(values: dict[str, str], nodes: int) -> int:
    tasks = _whole(values.get("NumTasks", "1")) or 1
    per = {"TresPerJob": 1, "TresPerNode": nodes, "TresPerTask": tasks, "TresPerSocket": nodes}
    requests = [gpus_in(values[name])[0] * times for name, times in per.items() if values.get(name)]
    return max(requests) if requests else gpus_in(values.get("ReqTRES", values.get("TRES", "")))[0]


def _shares(line: str, values: dict[str, str]) -> dict[str, Share]:
    if values["JobState"] == "PENDING":
        return {}
    shares = {}
    for hosts, cpus, memory, gres in _DETAIL.findall(line):
        for name in expand(hosts):
            shares[name] = Share(gpus_in(gres)[0], len(expand(f"[{cpus}]")), int(memory))
    return shares


def _uid(text: str) -> int:
    """Of `ada(1000)`."""
    value = plain_whole(text.partition("(")[2].rstrip(")"))
    return ANYBODY if value is None else value


def _whole(text: str) -> int:
    """The first number of `4`, `4-8`."""
    match = re.match(r"\d+", text)
    return int(match[0]) if match else 0


def _moment(text: str) -> float:
    """Slurm prints local time."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _seconds(text: str) -> float | None:
    """`1-02:03:04`, or nothing for UNLIMITED."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
