"""Confidence over seeds: the mean and the interval that holds it with 95 % (Student's t over independent seeds)."""

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
        if self.half is None:
            return {"mean": self.mean, "low": None, "high": None}
        return {"mean": self.mean, "low": self.mean - self.half, "high": self.mean + self.half}


def interval(values: Sequence[float]) -> Interval:
    """The mean of one value a seed."""
    found = np.asarray(values, np.float64)
    if len(found) < 2:
        return Interval(float(found.mean()), None)
    from scipy.special import stdtrit

    t = float(stdtrit(len(found) - 1, 0.5 + CONFIDENCE / 2))
    return Interval(float(found.mean()), t * float(found.std(ddof=1)) / float(np.sqrt(len(found))))


def mean_jct_s(summaries: Sequence[dict[str, Any]]) -> Interval:
    """The mean JCT over seeds."""
    return interval([summary["jct_s"]["mean"] for summary in summaries])


def ratio(summaries: Sequence[dict[str, Any]], first: Sequence[dict[str, Any]]) -> Interval:
    """Mean JCT against the first policy, seed by seed: both ran the same jobs, so the pairs are what varies least."""
    return interval([a["jct_s"]["mean"] / b["jct_s"]["mean"] for a, b in zip(summaries, first, strict=True)])
