"""Fabrics from an inventory of hosts and switches, as operators keep it: a table with a row per host."""

import csv
import gzip
import io
from collections import Counter
from pathlib import Path
from statistics import median_high

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
    hosts = sorted(Counter((row["psw"], row["asw"]) for row in rows).items())
    leaves_in_pod = Counter(pod for (pod, _), _ in hosts)
    groups = tuple(leaf for leaf, (_, count) in enumerate(hosts) for _ in range(count))
    spines = min(MOST_UPLINKS, median_high(count for _, count in hosts) * GPUS_PER_SERVER)
    leaf_pod = tuple(pod for pod, leaves in enumerate(leaves_in_pod.values()) for _ in range(leaves))
    name, cores = path.name.split(".")[0], max(leaves_in_pod.values())
    return Fabric(name, "three-tier", groups, GPUS_PER_SERVER, spines, leaf_pod=leaf_pod, cores_per_group=cores)
