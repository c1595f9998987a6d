"""What Slurm answers, read into a snapshot: JSON as versions since 21.08 print it, whose fields changed their form more than once.

A number may be plain or {"set": true, "infinite": false, "number": 5}; a state a word or a list of words. What cannot be read is refused
as a whole: the caller then asks for the fixed format (headway/slurm/fixed.py).
"""

import re
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from headway.errors import BadInput, HeadwayError
from headway.slurm.hostlist import expand
from headway.slurm.snapshot import ANYBODY, Share, SlurmJob, SlurmNode

_GPUS = re.compile(r"(?:gres[:/])?gpu(?::(?P<type>[A-Za-z_][\w.-]*))?(?:[:=](?P<count>\d+))?(?:\(|,|$)")


class Unreadable(HeadwayError):
    """The answer is not in a form that is known here."""


def read_jobs(answer: bytes | str) -> dict[int, SlurmJob]:
    """Jobs by number, of `squeue --json` or slurmrestd."""
    rows = _rows(answer, "jobs")
    try:
        return {job.id: job for job in map(_job, rows)}
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, BadInput) as error:
        raise Unreadable(f"a job in Slurm's answer cannot be read: {error!r}") from None


def read_nodes(answer: bytes | str) -> tuple[SlurmNode, ...]:
    """Nodes in Slurm's order, of `sinfo --json` or slurmrestd."""
    rows = _rows(answer, "nodes")
    try:
        return tuple(map(_node, rows))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"a node in Slurm's answer cannot be read: {error!r}") from None


def _rows(answer: bytes | str, what: str) -> list[Any]:
    try:
        content = from_json(answer)  # twice as fast as json.loads, which counts with ten thousand jobs
    except ValueError as error:
        if isinstance(answer, bytes):  # names and comments of jobs may hold any bytes
            return _rows(answer.decode(errors="replace"), what)
        raise Unreadable(f"Slurm's answer is not JSON: {error}") from None
    rows = content.get(what) if isinstance(content, dict) else None
    if not isinstance(rows, list):
        raise Unreadable(f"Slurm's answer has no list of {what}")
    return rows


def _node(row: dict[str, Any]) -> SlurmNode:
    gres = gpus_in(row.get("gres") or "")
    states = [*_words(row["state"]), *_words(row.get("state_flags"))]
    return SlurmNode(
        name=str(row["name"]),
        address=str(row.get("address") or row["name"]),
        gpus=gres[0],
        gpu_type=gres[1],
        gpus_used=gpus_in(row.get("gres_used") or "")[0],
        cpus=_number(row.get("cpus"), 1) or 1,
        memory_mb=_number(row.get("real_memory")),
        features=tuple(_listed(row.get("features"))),
        partitions=tuple(_listed(row.get("partitions"))),
        state=tuple(states),
        reason=str(row.get("reason") or ""),
    )


def _job(row: dict[str, Any]) -> SlurmJob:
    states = _words(row["job_state"])
    state = "COMPLETING" if "COMPLETING" in states else states[0]
    node_count = _number(row.get("node_count"), 1) or 1
    limit = row.get("time_limit")
    if state == "PENDING" or not row.get("nodes"):
        shares: dict[str, Share] = {}
    else:
        shares = _shares(row, node_count)
    return SlurmJob(
        id=int(row["job_id"]),
        state=state,
        comment=_comment(row.get("comment")),
        name=str(row.get("name") or ""),
        user=str(row.get("user_name") or row.get("user_id") or ""),
        uid=_number(row.get("user_id"), ANYBODY),
        partition=str(row.get("partition") or ""),
        reason=str(row.get("state_reason") or ""),
        shares=shares,
        node_count=node_count,
        gpus=sum(share.gpus for share in shares.values()) or gpus_asked(row, node_count),
        exit_code=_exit_code(row.get("exit_code")),
        submitted=float(_number(row.get("submit_time"))),
        eligible=float(_number(row.get("eligible_time"))),
        started=float(_number(row.get("start_time"))),
        ended=float(_number(row.get("end_time"))),
        limit_s=60.0 * _number(limit) if _number(limit) and not _infinite(limit) else None,
        nice=_signed(_number(row.get("nice"))),
        priority=_number(row.get("priority")),
        restarts=_number(row.get("restart_cnt")),
        array=_number(row.get("array_job_id")),
        het=_number(row.get("het_job_id")),
    )


def _shares(row: dict[str, Any], node_count: int) -> dict[str, Share]:
    """What the job holds on each node: GPUs by node where Slurm says so, otherwise what was asked for per node."""
    resources = row.get("job_resources") or {}
    placed = resources.get("allocated_nodes")
    rows = placed if isinstance(placed, list) else []
    names = [str(each["nodename"]) for each in rows if isinstance(each, dict) and "nodename" in each]
    names = names if names else expand(str(row.get("nodes") or ""))
    detail = row.get("gres_detail") or []
    cpus = -(-_number(row.get("cpus"), 0) // max(1, len(names)))
    per_node = -(-gpus_asked(row, node_count) // max(1, len(names)))
    shares = {}
    for k, name in enumerate(names):
        gpus = gpus_in(str(detail[k]))[0] if k < len(detail) else per_node
        memory = _number(rows[k].get("memory_allocated")) if k < len(rows) else 0
        shares[name] = Share(gpus, cpus, memory)
    return shares


def gpus_asked(row: dict[str, Any], node_count: int) -> int:
    """GPUs of all nodes together that a job asks for, however it asks."""
    tasks = _number(row.get("tasks"), 1) or 1
    per = {"tres_per_job": 1, "tres_per_node": node_count, "tres_per_task": tasks, "tres_per_socket": node_count}
    requests = [gpus_in(str(row[name]))[0] * times for name, times in per.items() if row.get(name)]
    return max(requests) if requests else gpus_in(str(row.get("tres_req_str") or ""))[0]


@lru_cache(10_000)  # few texts, many jobs
def gpus_in(text: str) -> tuple[int, str]:
    """GPUs in a list such as `gpu:v100:4(IDX:0-3),nic:1` or `cpu=4,gres/gpu=2`, and their type ("": not one)."""
    text = re.sub(r"\([^)]*\)", "", text)  # (IDX:0,2-3), (S:0-1)
    count, kinds = 0, set[str]()
    for part in text.split(","):
        match = _GPUS.fullmatch(part.strip()) if "gpu" in part else None
        if match:
            count += int(match["count"] or 1)
            kinds.add(match["type"] or "")
    return count, kinds.pop() if len(kinds) == 1 else ""


def _comment(value: Any) -> str:
    if isinstance(value, dict):  # since 23.02: by who wrote it
        value = value.get("job")
    return str(value or "")


def _exit_code(value: Any) -> int:
    """A shell's exit code: a wait status in old versions, an object in new ones."""
    if isinstance(value, dict):
        killed = value.get("signal") or {}
        signal = _number(killed.get("id", killed.get("signal_id"))) if isinstance(killed, dict) else 0
        return 128 + signal if signal else _number(value.get("return_code"))
    status = _number(value)
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8


def _number(value: Any, default: int = 0) -> int:
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) else None
    return default if value is None else int(value)


def _signed(value: int) -> int:
    """22.05 prints negative nice values as if they had no sign."""
    return value - (1 << 32) if value >= 1 << 31 else value


def _infinite(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.get("infinite"))


def _words(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return _upper("+".join(map(str, value)) if isinstance(value, list) else str(value))


@lru_cache(10_000)
def _upper(text: str) -> tuple[str, ...]:
    return tuple(word.upper().rstrip("*~#!%$@^-") for word in re.split(r"[+ ,]", text) if word.strip())


def _listed(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(each) for each in value]
    return [each for each in str(value or "").split(",") if each]
