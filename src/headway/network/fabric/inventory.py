"""Fabrics from an inventory of hosts and switches, as operators keep it: a table with a row per host."""

import csv
import gzip
import io
from collections import Counter
from pathlib import Path

from headway.errors import BadInput
from headway.network.fabric.model import MOST_UPLINKS, Fabric

GPUS_PER_SERVER = 8  # an inventory says neither GPUs nor cables
COLUMNS = ("host", "dsw", "psw", "asw")


def read_inventory(path: Path) -> Fabric:
    """A three-tier fabric from an inventory with columns host, dsw, psw, asw (core, aggregation, leaf).

    A leaf is the pair (psw, asw), a pod is a psw group. Every leaf has as many uplinks as there are NICs on the usual (median) leaf, capped
    at 64.
    """
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.name.endswith(".gz") else raw).decode("utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    for column in COLUMNS:
        if not rows or column not in rows[0]:
            raise BadInput(f"{path}: column {column!r} is missing: an inventory has {','.join(COLUMNS)}")
    for line, row in enumerate(rows, start=2):
        if not row["psw"] or not row["asw"]:
            raise BadInput(f"{path}: line {line}: asw: host {row['host']!r} has NICs but no leaf")
    return _fabric(path.name.split(".")[0], [(row["psw"], row["asw"]) for row in rows])


def _fabric(name: str, leaf_of_host: list[tuple[str, str]]) -> Fabric:
    leaves = sorted(set(leaf_of_host))
    pods = sorted({pod for pod, _ in leaves})
    number = {leaf: place for place, leaf in enumerate(leaves)}
    groups = sorted(number[leaf] for leaf in leaf_of_host)
    sizes = sorted(Counter(groups).values())
    return Fabric(
        name=name,
        kind="three-tier",
        server_group=tuple(groups),
        gpus_per_server=GPUS_PER_SERVER,
        spines=min(MOST_UPLINKS, sizes[len(sizes) // 2] * GPUS_PER_SERVER),
        leaf_pod=tuple(pods.index(pod) for pod, _ in leaves),
        cores_per_group=max(Counter(pod for pod, _ in leaves).values()),
    )
