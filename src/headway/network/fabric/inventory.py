"""Fabrics from an inventory of hosts and switches, as operators keep it: a table with a row per host."""

import csv
import io
import re
from collections import Counter
from itertools import islice
from statistics import median_high

from headway.errors import BadInput
from headway.network.fabric.model import MOST_GPUS, MOST_UPLINKS, Fabric

GPUS_PER_SERVER = 8  # an inventory says neither GPUs nor cables
MOST_HOSTS = MOST_GPUS // GPUS_PER_SERVER
COLUMNS = ("host", "dsw", "psw", "asw")


def fabric_from_hosts(text: str, where: str, title: str) -> Fabric:
    """Return a three-tier fabric from a table with columns host, dsw, psw, asw (core, aggregation, leaf); `where` names the file.

    A leaf is the pair (psw, asw), a pod is a psw group. Every leaf has as many uplinks as there are NICs on the usual (median) leaf, capped
    at 64.
    """
    try:
        rows = list(islice(csv.DictReader(io.StringIO(text)), MOST_HOSTS + 1))
    except csv.Error as error:
        raise BadInput(f"{where}: not a table of hosts: {error}") from None
    for column in COLUMNS:
        if not rows or column not in rows[0]:
            raise BadInput(f"{where}: column {column!r} is missing: an inventory has {','.join(COLUMNS)}")
    for line, row in enumerate(rows, start=2):
        if not row["psw"] or not row["asw"]:
            raise BadInput(f"{where}: line {line}: asw: host {row['host']!r} has NICs but no leaf")
    if len(rows) > MOST_HOSTS:
        raise BadInput(f"{where}: more than {MOST_HOSTS:,} hosts")
    hosts = sorted(Counter((row["psw"], row["asw"]) for row in rows).items())
    leaves_in_pod = Counter(pod for (pod, _), _ in hosts)
    groups = tuple(leaf for leaf, (_, count) in enumerate(hosts) for _ in range(count))
    spines = min(MOST_UPLINKS, median_high(count for _, count in hosts) * GPUS_PER_SERVER)
    leaf_pod = tuple(pod for pod, leaves in enumerate(leaves_in_pod.values()) for _ in range(leaves))
    name, cores = _named(title), max(leaves_in_pod.values())
    return Fabric(name, "three-tier", groups, GPUS_PER_SERVER, spines, leaf_pod=leaf_pod, cores_per_group=cores)


def _named(stem: str) -> str:
    """The file's name as a fabric may be called."""
    return re.sub("[^A-Za-z0-9 ._:/+-]", "-", stem)[:63].lstrip(" ._:/+-") or "inventory"
