"""An outcome in numbers: the JSON row of `headway collective`, and means over topologies."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any, TypeVar

from headway.collectives.schedulers import SchedulerOutcome, fixed_chunks
from headway.collectives.training.iteration import Iteration

One = TypeVar("One", SchedulerOutcome, Iteration)


def outcome_json(outcome: SchedulerOutcome) -> dict[str, Any]:
    """The contract of `headway collective --json`; dimensions are counted from 0, as in the plan file."""
    return {
        "topology": outcome.topology.name,
        "collective": str(outcome.collective),
        "size_bytes": outcome.size_bytes,
        "chunks": len(outcome.plan.chunks),
        "scheduler": outcome.scheduler,
        "intra": outcome.intra,
        "method": outcome.method,
        "in_flight": outcome.in_flight,
        "time_s": outcome.time_s,
        "ideal_s": outcome.limit.ideal_s,
        "limit_s": outcome.limit.limit_s,
        "latency_limit_s": outcome.latency_limit_s,
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


def means(rows: Sequence[Sequence[SchedulerOutcome]], methods: Sequence[str]) -> list[dict[str, Any]]:
    """Averages over topologies for each method."""
    return [
        {
            "method": method,
            "utilisation": fmean(outcome.utilisation for outcome in column),
            "of_limit": fmean(outcome.limit.limit_s / outcome.time_s for outcome in column),
            "of_bound": fmean(outcome.bound_s / outcome.time_s for outcome in column),
            **speedups(column, rows),
        }
        for method, column in zip(methods, zip(*rows, strict=True), strict=True)
    ]


def rival(one: One, row: Sequence[One]) -> One:
    """Against what a method is held: the first of its row that chose its chunks as it did, freely or the same fixed
    number; else the first."""
    _, fixed = fixed_chunks(one.method)
    return next((other for other in row if fixed_chunks(other.method)[1] == fixed), row[0])


def speedups(column: Sequence[One], rows: Sequence[Sequence[One]]) -> dict[str, Any]:
    """The mean and the largest speed-up of one method over topologies, and against which method of its row."""
    gains = [rival(one, row).time_s / one.time_s for one, row in zip(column, rows, strict=True)]
    return {"against": rival(column[0], rows[0]).method, "speedup": fmean(gains), "speedup_max": max(gains)}


def mean_speedups(results: Sequence[Sequence[Iteration]]) -> list[dict[str, Any]]:
    """The same for training iterations."""
    return [{"method": column[0].method, **speedups(column, results)} for column in zip(*results, strict=True)]
