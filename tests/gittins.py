"""The Gittins index of given samples, as the engine computes it."""

import numpy as np

from headway.core.history import gittins, refresh
from headway.core.tables.options import history


def index_of(samples: np.ndarray, attained: float, plotted: bool = False) -> float:
    """The index at this attained service."""
    past = history(np.asarray(samples, np.float64))
    refresh(past, plotted)
    return float(gittins(past, attained, plotted))
