"""Max-min fair rates: every job as fast as it can be without slowing a slower one.

A job needs `need[l]` of link l per unit of its rate, on all its links at once, because the flows of a collective wait
for one another at every step. Progressive filling: all rates rise together; when a link is full the jobs on it stop.
"""

import numpy as np

from headway.core.compiler.jit import jit


@jit
def max_min(first, link, need, capacity, most):  # type: ignore[no-untyped-def]
    """Rates of jobs: job j uses entries first[j] to first[j + 1] - 1 of (`link`, `need`); no rate exceeds `most`.

    Every round freezes the jobs of at least one link (or all that are left), so there are at most as many rounds as
    links or jobs.
    """
    jobs = first.size - 1
    rate = np.full(jobs, -1.0)
    room = capacity.astype(np.float64)
    for _ in range(jobs):
        asked = np.zeros(capacity.size)
        for job in range(jobs):
            if rate[job] < 0:
                for at in range(first[job], first[job + 1]):
                    asked[link[at]] += need[at]
        level = most
        tightest = -1
        for one in range(capacity.size):
            if asked[one] > 0 and room[one] / asked[one] < level:
                level = room[one] / asked[one]
                tightest = one
        left = 0
        for job in range(jobs):
            if rate[job] >= 0:
                continue
            stops = tightest < 0
            for at in range(first[job], first[job + 1]):
                stops = stops or (link[at] == tightest and need[at] > 0)
            if not stops:
                left += 1
                continue
            rate[job] = level
            for at in range(first[job], first[job + 1]):
                room[link[at]] -= need[at] * level
        if left == 0:
            break
    return rate
