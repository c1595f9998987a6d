"""Confidence over seeds: the mean and its 95 % confidence interval (Student's t over independent seeds)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval; without one (`half` is None) where there is a single seed."""

    mean: float
    half: float | None

    @property
    def as_json(self) -> dict[str, float | None]:
        """Mean, low and high."""
        low, high = (None, None) if self.half is None else (self.mean - self.half, self.mean + self.half)
        return {"mean": self.mean, "low": low, "high": high}


def interval(values: Sequence[float]) -> Interval:
    """The mean of values, one per seed."""
    array = np.asarray(values, np.float64)
    if len(array) < 2:
        return Interval(float(array.mean()), None)
    from scipy.special import stdtrit

    t = float(stdtrit(len(array) - 1, 0.5 + CONFIDENCE / 2))
    return Interval(float(array.mean()), t * float(array.std(ddof=1)) / float(np.sqrt(len(array))))


def value_at(summary: dict[str, Any], path: Sequence[str]) -> float:
    """A figure of a summary by its path, such as ("jct_s", "p95")."""
    value: Any = summary
    for name in path:
        value = value[name]
    return float(value)


def figure(summaries: Sequence[dict[str, Any]], *path: str) -> Interval:
    """A figure over seeds."""
    return interval([value_at(summary, path) for summary in summaries])


def figure_ratio(summaries: Sequence[dict[str, Any]], first: Sequence[dict[str, Any]], *path: str) -> Interval | None:
    """A figure as a ratio to that of the first policy, seed by seed: both ran the same jobs, so the ratio varies least.

    None where the figure of the first policy is zero for some seed, as waiting times may be.
    """
    pairs = [(value_at(a, path), value_at(b, path)) for a, b in zip(summaries, first, strict=True)]
    return interval([a / b for a, b in pairs]) if all(b for _, b in pairs) else None


def label(summary: dict[str, Any]) -> str:
    """The name of a run in tables: that of its stack, or of its policy."""
    return str(summary.get("stack") or summary["policy"])
