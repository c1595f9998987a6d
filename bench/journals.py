"""Journals of every policy and placement on the shared traces, as hashes: `python -m bench.journals write FILE`, then `compare FILE`.

A change that is to leave every decision as it was runs this before and after. Hashed are the facts and actions in `KINDS` with their time,
job, queue, attempt, size and GPUs; facts that were added to the journal later are left out, so that old hashes stay comparable.
"""

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench.shared_traces import first_jobs

import headway
from headway.core.events import NAMES

POLICIES = [
    "fifo",
    "best-effort",
    "sjf",
    "srtf",
    "srsf",
    "las",
    "2d-las",
    "tiresias-l",
    "gittins",
    "tiresias-g",
    "gandiva",
    "optimus",
]
PLACEMENTS = ["consolidated", "spread", "random", "profile"]
TRACES = ("philly_82k", "helios_venus_125k", "pai2020_60k", "muri_philly_4traces")
COSTS = {"free": {}, "model": {"preemption_cost": "model", "slowdown": "model"}}
KINDS = (
    "Ended",
    "Stopped",
    "Started",
    "Crossed",
    "Submitted",
    "Held",
    "Released",
    "Stop",
    "Resize",
    "Reserve",
    "Start",
    "Pack",
)
FIELDS = ("time", "job", "level", "attempt", "gpus")
NETWORKS = {
    "ecmp": {"network": "ecmp", "fabric": "vclos-512"},
    "balanced": {"network": "balanced", "fabric": "vclos-512"},
    "source": {"network": "source", "fabric": "vclos-512"},
    "vclos": {"network": "isolated", "placement": "vclos", "fabric": "vclos-512"},
    "vclos-padded": {"network": "isolated", "placement": "vclos-padded", "fabric": "vclos-512"},
    "ocs-vclos": {"network": "isolated", "placement": "ocs-vclos", "fabric": "ocs-vclos-512"},
}


def hashed(result: Any) -> dict[str, Any]:
    """The hash of a run's journal, and its mean completion time."""
    rows, seats = result.run.entries, result.run.seats
    numbers = np.array([KINDS.index(name) if name in KINDS else -1 for name in NAMES])
    rows = rows[numbers[rows["kind"]] >= 0]
    digest = hashlib.sha256(numbers[rows["kind"]].astype(np.int64).tobytes())
    for name in FIELDS:
        digest.update(rows[name].astype(np.float64).tobytes())
    placed = np.isin(numbers[rows["kind"]], (KINDS.index("Start"), KINDS.index("Pack")))
    for row in rows[placed]:
        digest.update(seats[row["seat_at"] : row["seat_at"] + row["gpus"]].astype(np.int64).tobytes())
    return {"rows": len(rows), "sha256": digest.hexdigest()[:16], "jct_s": result.summary["jct_s"]["mean"]}


def runs() -> Iterator[tuple[str, Any]]:
    """The name of every run, and how to make it."""
    for trace in TRACES:
        jobs, cluster = first_jobs(trace)
        for policy in POLICIES:
            for placement in PLACEMENTS:
                for cost, given in COSTS.items():
                    yield (
                        f"{trace} {policy} {placement} {cost}",
                        lambda p=policy, x=placement, g=given, j=jobs, c=cluster: headway.simulate(
                            j, c, p, placement=x, keep_journal=True, **g
                        ),
                    )
    for name, given in NETWORKS.items():
        for policy in POLICIES:
            if policy != "gandiva" or "vclos" not in name:
                yield (
                    f"synthetic:vclos-large {policy} {name}",
                    lambda p=policy, g=given: headway.simulate(
                        "synthetic:vclos-large?jobs=200&cluster=64x8&load=0.9",
                        "64x8",
                        p,
                        keep_journal=True,
                        preemption_cost="30s",
                        skip_impossible=True,
                        **g,
                    ),
                )


def main() -> None:
    """Write the hashes, or compare with those in a file."""
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "compare"):
        sys.exit("usage: python -m bench.journals write|compare FILE")
    path = Path(sys.argv[2])
    before = json.loads(path.read_text()) if sys.argv[1] == "compare" else {}
    found, other = {}, 0
    for name, run in runs():
        began = time.process_time()
        try:
            found[name] = hashed(run())
        except headway.errors.HeadwayError as error:
            found[name] = {"error": str(error)}
        spent = time.process_time() - began
        same = not before or found[name] == before[name]
        other += not same
        if spent > 5 or not same:
            print(f"{name}: {spent:.1f} s {'' if same else f'{before[name]} -> {found[name]}'}", flush=True)
    if before:
        print(f"{len(found)} runs, {other} differ")
        sys.exit(other > 0)
    path.write_text(json.dumps(found, indent=0) + "\n")
    print(f"{len(found)} runs hashed")


if __name__ == "__main__":
    main()
