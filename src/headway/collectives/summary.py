"""An outcome in numbers: the JSON row of `headway collective`, and means over topologies."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from headway.collectives.schedulers import Outcome
from headway.collectives.training.iteration import Iteration


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
        "per_dimension": [
            {
                "dim": dim,
                **asdict(dimension),
                "sent_bytes": outcome.timeline.bytes_on(dim),
                "busy_s": outcome.timeline.busy_s(dim),
                "utilisation": outcome.timeline.busy_s(dim) / outcome.time_s,
            }
            for dim, dimension in enumerate(outcome.topology.dimensions)
        ],
    }


def means(rows: Sequence[Sequence[Outcome]], methods: Sequence[str]) -> list[dict[str, Any]]:
    """Averages over topologies for each method; speed-up is against the first method of the row."""
    return [
        {
            "method": method,
            "utilisation": fmean(outcome.utilisation for outcome in column),
            "of_limit": fmean(outcome.limit.limit_s / outcome.time_s for outcome in column),
            **speedups(column, rows),
        }
        for method, column in zip(methods, zip(*rows, strict=True), strict=True)
    ]


def speedups(column: Sequence[Outcome | Iteration], rows: Sequence[Sequence[Outcome | Iteration]]) -> dict[str, float]:
    """The mean and the largest speed-up of one method over topologies, each against the first method of its row."""
    gains = [row[0].time_s / one.time_s for one, row in zip(column, rows, strict=True)]
    return {"speedup": fmean(gains), "speedup_max": max(gains)}


def mean_speedups(results: Sequence[Sequence[Iteration]]) -> list[dict[str, Any]]:
    """The same for training iterations."""
    return [{"method": column[0].method, **speedups(column, results)} for column in zip(*results, strict=True)]
