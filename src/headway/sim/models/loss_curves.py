"""Loss curves of simulated jobs: what a job reports as it trains, for policies that predict from it (Optimus).

A job of work L follows loss(x) = 1 / (a x + 1) + c in work x, with a such that its relative improvement has become small at the end, as in
Optimus (Peng et al., EuroSys'18, section 3.1). Reports are noisy; and a third of the jobs drop a step at an unforeseeable point, as they
do when the learning rate is cut: there the prediction is wrong, which is the weakness that Tiresias points at (section 2.2).
"""

import numpy as np
from numpy.typing import NDArray

REPORTS = 20  # how many reports a prediction looks at
NOISE = 0.02
STEPPED_SHARE = 1 / 3
# At the end of the work, the curve falls by this much a per cent of the work: the convergence test of a user.
CONVERGED = 1e-3


class LossCurves:
    """Curves of all jobs, drawn from a seed."""

    def __init__(self, work: NDArray[np.float64], seed: int) -> None:
        random = np.random.default_rng([seed, 1])
        n = len(work)
        self.work = work
        self.floor = random.uniform(0.05, 0.3, n)
        stepped = random.random(n) < STEPPED_SHARE
        self.step_at = np.where(stepped, random.uniform(0.3, 0.8, n) * work, np.inf)
        self.noise = np.array([np.random.default_rng([seed, 2, j]).normal(0.0, NOISE, REPORTS) for j in range(n)])

    def reported(
        self, ids: NDArray[np.int64], done: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Work and loss in the reports that each job had made by the time it had done so much work, one row per job."""
        x = np.outer(done / (REPORTS - 1), np.arange(REPORTS))
        steep = _steepness() / self.work[ids, None]
        loss = 1.0 / (steep * x + 1.0) + self.floor[ids, None]
        loss = np.where(x >= self.step_at[ids, None], loss * 0.6, loss)
        return x, loss * (1.0 + self.noise[ids])


def _steepness() -> float:
    """The k with k / (k + 1)^2 / 100 = CONVERGED: where loss 1 / (k x / L + 1) has converged at x = L."""
    c = 100 * CONVERGED
    return (1 - 2 * c + (1 - 4 * c) ** 0.5) / (2 * c)
