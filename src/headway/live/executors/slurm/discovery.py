"""The nodes of Slurm as a cluster: those with GPUs of one partition. They are remembered, so that Headway starts while Slurm is away."""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.io.files import write_atomically
from headway.live.executors import Discovery
from headway.slurm.fixed import fields
from headway.slurm.hostlist import expand
from headway.slurm.requests import NoAnswer, Rejected, SlurmConnection
from headway.slurm.snapshot import SlurmNode
from headway.slurm.topology import read_leaves

KNOWN = "slurm-nodes.json"
INSTANCE = "slurm-instance"
LOOK = "see `sinfo -o '%N %G %P'`"


def instance_of(data: Path) -> str:
    """What tells the jobs of this data folder from those of others."""
    path = data / INSTANCE
    if not path.exists():
        data.mkdir(parents=True, exist_ok=True, mode=0o711)
        write_atomically(path, secrets.token_hex(6) + "\n", 0o644)
    return path.read_text("ascii").strip()


def discover(door: SlurmConnection, data: Path, options: Mapping[str, str]) -> Discovery:
    """The nodes with GPUs that a submission with these options may use; as they were last time, while Slurm does not answer."""
    partition = options.get("partition", "")
    try:
        nodes = usable(door, options)
        leaves = read_leaves(door.show("topology"), [node.name for node in nodes])
        data.mkdir(parents=True, exist_ok=True, mode=0o711)
        write_atomically(data / KNOWN, json.dumps({"nodes": [asdict(node) for node in nodes], "leaves": leaves}), 0o644)
        note = ""
    except NoAnswer as error:
        nodes, leaves = remembered(data)
        if not nodes:
            raise BadInput(f"Slurm does not answer, and nothing is known of its nodes yet: {error}") from None
        note = f"Slurm does not answer ({error}): going on with the {len(nodes)} nodes that it had"
    except Rejected as error:
        raise BadInput(f"Slurm's nodes cannot be listed: {error}") from None
    name = f"slurm:{partition}" if partition else "slurm"
    types, features = tuple(node.gpu_type for node in nodes), tuple(node.features for node in nodes)
    names, gpus = tuple(node.name for node in nodes), tuple(node.gpus for node in nodes)
    cluster = Cluster(name, names, gpus, tuple(leaves), types=types, features=features)
    return Discovery(cluster, note)


def usable(door: SlurmConnection, options: Mapping[str, str]) -> list[SlurmNode]:
    """Nodes with GPUs that Slurm would give to a submission with these options: it refuses the others, and the job would fail."""
    nodes = [node for node in door.poll().nodes if node.gpus]
    if not nodes:
        raise BadInput(f"Slurm has no nodes with GPUs (Gres=gpu:... in slurm.conf): {LOOK}")
    partition = options.get("partition") or default_partition(door.show("partition"))
    among = [node for node in nodes if partition in node.partitions]
    if not among:
        others = ", ".join(sorted({name for node in nodes for name in node.partitions}))
        which = (
            f"partition {partition!r}" if "partition" in options else f"the default partition ({partition or 'none'})"
        )
        raise BadInput(
            f"{which} has no nodes with GPUs: give --executor slurm?partition=NAME with one of {others}; {LOOK}"
        )
    nodes = among
    if "reservation" in options:
        names = reserved_nodes(door.show("reservation"), options["reservation"])
        nodes = [node for node in nodes if node.name in names]
    if "constraint" in options:
        nodes = [node for node in nodes if suits(node, options["constraint"])]
    if not nodes:
        said = ", ".join(f"{name} {options[name]!r}" for name in ("reservation", "constraint") if name in options)
        raise BadInput(
            f"no node with GPUs is left by {said}: see `sinfo -o '%N %G %P %f'`, `scontrol show reservation`"
        )
    return nodes


def default_partition(text: str) -> str:
    """The one that Slurm takes when none is named; empty: none."""
    rows = [fields(line) for line in text.splitlines()]
    return next((row["PartitionName"] for row in rows if row.get("Default") == "YES"), "")


def reserved_nodes(text: str, name: str) -> set[str]:
    """The nodes of a reservation."""
    rows = {row.get("ReservationName", ""): row for row in map(fields, text.splitlines())}
    if name not in rows:
        raise BadInput(f"Slurm has no reservation {name!r}: see `scontrol show reservation`")
    return set(expand(rows[name].get("Nodes", "")))


def suits(node: SlurmNode, constraint: str) -> bool:
    """Whether a node has the features of a plain constraint (`a`, `a|b`); any other is left to Slurm."""
    if re.fullmatch(r"[\w|.-]+", constraint) is None:
        return True
    return any(feature in node.features for feature in constraint.split("|"))


def remembered(data: Path) -> tuple[list[SlurmNode], list[int]]:
    """The nodes, and their leaves, as discovered last."""
    try:
        content = json.loads((data / KNOWN).read_text("utf-8"))
    except (OSError, ValueError):
        return [], []
    tuples = ("features", "partitions", "state")
    nodes = [SlurmNode(**{**row, **{name: tuple(row[name]) for name in tuples}}) for row in content["nodes"]]
    return nodes, content["leaves"]
