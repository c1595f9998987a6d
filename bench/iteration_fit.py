"""The iteration model fitted to measurements.

    T = (compute^q + communication^q)^(1/q)         compute = a + b m,     m samples on each GPU (or any measure of its work)
    communication = c 2 (1 - 1/g) + d 2 (1 - 1/n) / h + e [K > 1] + k [n > 1] + r (K - 1)

for K GPUs on n servers, at least g on each. c and d are the gradient over the bandwidth inside a server and of the network; h = g where
every GPU has a NIC of its own, 1 where a server has one (the data tell). e, k and r are what starting a step costs. q = 1 hides nothing, a
large q all that can be (the form of Pollux, Qiao et al., OSDI'21, section 3.2, with the terms of a hierarchical all-reduce).

Jobs with pipeline, tensor and data parallelism (pp x tp x dp, `fit_parallel`) have

    T = a + b (1 + u (pp - 1)) / K + c (1 - 1/tp) / (dp pp) + 2 (1 - 1/dp) / (tp pp) (d + f/w) + k (n - 1)

with u the bubble and w the ranks of a data-parallel group on one server. All numbers are at least 0, and errors are relative: what is
minimised is the square of log(T predicted / T measured).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SMALLEST = 1e-9  # seconds: the logarithm of a parameter that vanishes
HIDES = (1.0, 1.5, 2.0, 4.0, 8.0)  # starts of the search for q


@dataclass(frozen=True, slots=True)
class Rows:
    """Measured iterations of one model on one kind of GPU."""

    each: Floats  # GPUs on the server with the fewest
    servers: Floats
    gpus: Floats
    work: Floats  # on each GPU: samples, or 1 / GPUs where the whole batch is fixed
    seconds: Floats

    def take(self, rows: NDArray[Any]) -> "Rows":
        """Some of them."""
        return Rows(*(getattr(self, name)[rows] for name in ("each", "servers", "gpus", "work", "seconds")))

    def __len__(self) -> int:
        return len(self.seconds)


@dataclass(frozen=True, slots=True)
class Fit:
    """The numbers of a model: (a, b, c, d, e, k, r), q, and whether every GPU has a NIC."""

    terms: Floats
    q: float
    nic_per_gpu: bool

    def compute_s(self, rows: Rows) -> Floats:
        """Seconds of computation."""
        return np.asarray(self.terms[0] + self.terms[1] * rows.work)

    def seconds(self, rows: Rows) -> Floats:
        """Seconds of an iteration."""
        compute, talk = self.compute_s(rows), _features(rows, self.nic_per_gpu) @ self.terms[2:]
        return _together(compute, talk, self.q)


def _features(rows: Rows, nic_per_gpu: bool) -> Floats:
    many, apart = rows.gpus > 1, rows.servers > 1
    network = 2 * (1 - 1 / rows.servers) / (rows.each if nic_per_gpu else 1.0)
    return np.stack([2 * (1 - 1 / rows.each), network, many, apart, np.maximum(rows.gpus - 1, 0)], axis=1).astype(float)


def _together(compute: Floats, talk: Floats, q: float) -> Floats:
    """compute and communication, q from 1 (one after the other) upwards; scaled so that powers stay finite."""
    most = np.maximum(compute, talk)
    return np.asarray(most * ((compute / most) ** q + (talk / most) ** q) ** (1 / q))


def fit(rows: Rows) -> Fit:
    """The model that fits best."""
    return min(
        (_fit(rows, nic) for nic in (True, False)), key=lambda candidate: loss(candidate.seconds(rows), rows.seconds)
    )


def loss(predicted: Floats, measured: Floats) -> float:
    """What is minimised."""
    return float(np.mean(np.log(predicted / measured) ** 2))


def _fit(rows: Rows, nic_per_gpu: bool) -> Fit:
    from scipy.optimize import least_squares

    features = _features(rows, nic_per_gpu)
    scale = float(np.median(rows.seconds))

    def errors(x: Floats) -> Floats:
        terms, q = np.exp(x[:-1]), 1.0 + np.exp(x[-1])
        compute = terms[0] + terms[1] * rows.work
        return np.log(_together(compute, features @ terms[2:] + SMALLEST, q) / rows.seconds)

    best, lowest = None, np.inf
    for q in HIDES:
        start = [
            0.3 * scale,
            0.3 * scale / max(float(np.median(rows.work)), 1e-12),
            *[0.1 * scale] * 2,
            *[0.02 * scale] * 3,
        ]
        x = np.log([*start, max(q - 1.0, 0.05)])
        solution = least_squares(errors, x, bounds=(np.log(SMALLEST), np.log(1e6)), max_nfev=200)
        if solution.cost < lowest:
            best, lowest = solution.x, solution.cost
    assert best is not None
    return Fit(np.exp(best[:-1]), float(1.0 + np.exp(best[-1])), nic_per_gpu)


def fit_parallel(features: Floats, seconds: Floats) -> Floats:
    """Numbers, at least 0, for the terms of jobs with three kinds of parallelism: least squares of the relative errors."""
    from scipy.optimize import nnls

    return np.asarray(nnls(features / seconds[:, None], np.ones(len(seconds)))[0])


def parallel_features(pp: Floats, tp: Floats, dp: Floats, each: Floats, servers: Floats) -> Floats:
    """The terms of `fit_parallel`; ranks of a tensor-parallel group are on one server, as far as they fit."""
    gpus = dp * tp * pp
    on_server = np.clip(each / tp, 1, dp)  # data-parallel ranks of a group on one server
    reduced = 2 * (1 - 1 / dp) / (tp * pp)
    columns = [
        np.ones_like(dp),
        1 / gpus,
        (pp - 1) / gpus,
        (1 - 1 / tp) / (dp * pp),
        reduced,
        reduced / on_server,
        servers - 1,
    ]
    return np.stack(columns, axis=1)
