"""The nodes of Slurm as a cluster: those with GPUs of one partition. They are remembered, so that Headway starts while Slurm is away."""

import json
import secrets
from dataclasses import asdict
from pathlib import Path

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.io.files import write_atomically
from headway.live.executors import Discovery
from headway.slurm.requests import Door, Refused, Unreachable
from headway.slurm.snapshot import SlurmNode, Snapshot
from headway.slurm.topology import read_leaves

KNOWN = "slurm-nodes.json"
INSTANCE = "slurm-instance"


def instance_of(data: Path) -> str:
    """What tells the jobs of this data folder from those of others."""
    path = data / INSTANCE
    if not path.exists():
        data.mkdir(parents=True, exist_ok=True)
        write_atomically(path, secrets.token_hex(6) + "\n")
    return path.read_text("ascii").strip()


def discover(door: Door, data: Path, partition: str) -> Discovery:
    """The nodes with GPUs; as they were last time, while Slurm does not answer."""
    try:
        nodes = gpu_nodes(door.poll(), partition)
        leaves = read_leaves(door.topology(), [node.name for node in nodes])
        data.mkdir(parents=True, exist_ok=True)
        write_atomically(data / KNOWN, json.dumps({"nodes": [asdict(node) for node in nodes], "leaves": leaves}))
        note = ""
    except Unreachable as error:
        nodes, leaves = remembered(data)
        if not nodes:
            raise BadInput(f"Slurm does not answer, and nothing is known of its nodes yet: {error}") from None
        note = f"Slurm does not answer ({error}): going on with the {len(nodes)} nodes that it had"
    except Refused as error:
        raise BadInput(f"Slurm's nodes cannot be listed: {error}") from None
    if not nodes:
        where = f"partition {partition!r} has" if partition else "Slurm has"
        raise BadInput(f"{where} no nodes with GPUs (Gres=gpu:... in slurm.conf): see `sinfo -o '%N %G %P'`")
    name = f"slurm:{partition}" if partition else "slurm"
    types, features = tuple(node.gpu_type for node in nodes), tuple(node.features for node in nodes)
    names, gpus = tuple(node.name for node in nodes), tuple(node.gpus for node in nodes)
    found = Cluster(name, names, gpus, tuple(leaves), types=types, features=features)
    return Discovery(found, note)


def gpu_nodes(snapshot: Snapshot, partition: str) -> list[SlurmNode]:
    """Nodes with GPUs, of the partition where one is given."""
    return [node for node in snapshot.nodes if node.gpus and (not partition or partition in node.partitions)]


def remembered(data: Path) -> tuple[list[SlurmNode], list[int]]:
    """The nodes, and their leaves, as discovered last."""
    try:
        content = json.loads((data / KNOWN).read_text("utf-8"))
    except (OSError, ValueError):
        return [], []
    tuples = ("features", "partitions", "state")
    nodes = [SlurmNode(**{**row, **{name: tuple(row[name]) for name in tuples}}) for row in content["nodes"]]
    return nodes, content["leaves"]
