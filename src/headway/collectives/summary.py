"""An outcome in numbers: the JSON row of `headway collective`, and means over topologies."""

from collections.abc import Sequence
from typing import Any

from headway.collectives.schedulers import Outcome


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """The contract of `headway collective --json`; dimensions are counted from 0, as in the plan file."""
    return {
        "topology": outcome.topology.name,
        "collective": str(outcome.collective),
        "size_bytes": outcome.size_bytes,
        "chunks": len(outcome.plan.chunks),
        "scheduler": outcome.scheduler,
        "intra": outcome.intra,
        "in_flight": outcome.in_flight,
        "time_s": outcome.time_s,
        "ideal_s": outcome.limit.ideal_s,
        "limit_s": outcome.limit.limit_s,
        "utilisation": outcome.utilisation,
        "per_dimension": [_dimension_json(outcome, dim) for dim in range(len(outcome.topology.dimensions))],
    }


def _dimension_json(outcome: Outcome, dim: int) -> dict[str, Any]:
    dimension, line = outcome.topology.dimensions[dim], outcome.timeline
    return {
        "dim": dim,
        "kind": str(dimension.kind),
        "size": dimension.size,
        "link_gbps": dimension.link_gbps,
        "latency_ns": dimension.latency_ns,
        "sent_bytes": line.bytes_on(dim),
        "busy_s": line.busy_s(dim),
        "utilisation": line.busy_s(dim) / outcome.time_s,
    }


def means(rows: Sequence[Sequence[Outcome]], methods: Sequence[str]) -> list[dict[str, Any]]:
    """Averages over topologies for each method; speed-up is against the first method of the row."""
    found = []
    for place, method in enumerate(methods):
        column = [row[place] for row in rows]
        speedups = [row[0].time_s / row[place].time_s for row in rows]
        found.append(
            {
                "method": method,
                "utilisation": sum(outcome.utilisation for outcome in column) / len(column),
                "of_limit": sum(outcome.limit.limit_s / outcome.time_s for outcome in column) / len(column),
                "speedup": sum(speedups) / len(speedups),
                "speedup_max": max(speedups),
            }
        )
    return found
