"""What sharing links costs: exact loads per step, max-min fair rates, and slow-downs kept up to date job by job.

A step ends when its slowest flow does (vClos, simulation: step time = flow size x flows on its fullest link), so a
job's communication takes, against a network of its own, the factor
    sum over steps k of w_k * max over links l of step k of (own flows on l in k + other jobs' mean flows on l),
with w_k the step's part of the bytes. Own flows are exact per step; others are taken at their mean over their own
steps, times the part of their time they communicate, because steps of different jobs are not aligned.

`Shares` holds every running job's uses in pools with free lists; `join` and `leave` re-compute the factor only of the
jobs that share a link with the one that came or went. Means are counted in 1/65536 of a flow, as integers, so that
leaving restores every total exactly.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.network.sharing.routing import LINKS_PER_FLOW, route_step

ONE_FLOW = 65536


class Shares(NamedTuple):
    """Who uses which link. A use is (job, step, link, flows); a share is (job, link, mean flows)."""

    total: NDArray[np.int64]  # mean flows on every directed link, in 1/ONE_FLOW
    first_on_link: NDArray[np.int64]
    first_use: NDArray[np.int64]  # per job
    first_share: NDArray[np.int64]  # per job
    base: NDArray[np.float64]  # per job: weight of the steps that use no link
    factor: NDArray[np.float64]  # per job: the answer, 1 when alone and clean
    stamp: NDArray[np.int64]  # per job: scratch of `touched`
    use: NDArray[np.int64]  # rows: step, flows, share, next of the job
    use_weight: NDArray[np.float64]
    share: NDArray[np.int64]  # rows: job, link, mean, next of the job, next on the link, previous on the link
    free: NDArray[np.int64]  # first free use, first free share, current stamp


def new_shares(links: int, jobs: int, uses: int) -> Shares:
    """Nothing shared yet; room for `uses` uses in all."""
    use = np.full((uses, 4), -1, np.int64)
    use[:-1, 3] = np.arange(1, uses)
    share = np.full((uses, 6), -1, np.int64)
    share[:-1, 3] = np.arange(1, uses)
    none = np.full(jobs, -1, np.int64)
    return Shares(
        np.zeros(links, np.int64),
        np.full(links, -1, np.int64),
        none,
        none.copy(),
        np.zeros(jobs),
        np.ones(jobs),
        np.zeros(jobs, np.int64),
        use,
        np.zeros(uses),
        share,
        np.zeros(3, np.int64),
    )


@jit
def step_loads(links: np.ndarray, flows: int, loads: np.ndarray) -> int:
    """Add the flows' links to `loads` and return the fullest link's load."""
    worst = 0
    for flow in range(flows):
        for hop in range(LINKS_PER_FLOW):
            link = links[flow, hop]
            if link >= 0:
                loads[link] += 1
                worst = max(worst, loads[link])
    return worst


@jit
def clear_loads(links: np.ndarray, flows: int, loads: np.ndarray) -> None:
    """Undo `step_loads`: only the links that were touched."""
    for flow in range(flows):
        for hop in range(LINKS_PER_FLOW):
            if links[flow, hop] >= 0:
                loads[links[flow, hop]] = 0


@jit
def worst_loads(rule, seed, job, steps, gpu_of_rank, wiring, spines, core_width, loads):  # type: ignore[no-untyped-def]
    """The fullest link's load in every step of a job alone on the fabric. `loads` is zeroed scratch, one per link."""
    out = np.zeros(steps.shape[0], np.int64)
    flows_of = np.empty(gpu_of_rank.size, np.int64)
    links = np.empty((gpu_of_rank.size, LINKS_PER_FLOW), np.int64)
    for k in range(steps.shape[0]):
        kind, amount, block = steps[k, 0], steps[k, 1], steps[k, 2]
        flows = route_step(
            rule, seed, job, kind, amount, block, gpu_of_rank, wiring, spines, core_width, flows_of, links
        )
        out[k] = step_loads(links, flows, loads)
        clear_loads(links, flows, loads)
    return out


@jit
def _add_step(shares, job, step, weight, links, flows, loads, duty):  # type: ignore[no-untyped-def]
    """Record one step's uses of a job. Returns False when the pools are full (nothing is lost: `leave` undoes)."""
    any_use = False
    for flow in range(flows):
        for hop in range(LINKS_PER_FLOW):
            link = links[flow, hop]
            if link < 0 or loads[link] == 0:
                continue
            at = shares.free[0]
            mine = shares.first_on_link[link]
            while mine >= 0 and shares.share[mine, 0] != job:
                mine = shares.share[mine, 4]
            if at < 0 or (mine < 0 and shares.free[1] < 0):
                return False
            if mine < 0:
                mine = _new_share(shares, job, link)
            shares.free[0] = shares.use[at, 3]
            shares.use[at, 0], shares.use[at, 1], shares.use[at, 2] = step, loads[link], mine
            shares.use[at, 3] = shares.first_use[job]
            shares.use_weight[at] = weight
            shares.first_use[job] = at
            mean = np.int64(loads[link] * weight * duty * ONE_FLOW + 0.5)
            shares.share[mine, 2] += mean
            shares.total[link] += mean
            loads[link] = 0
            any_use = True
    if not any_use:
        shares.base[job] += weight
    return True


@jit
def _new_share(shares, job, link):  # type: ignore[no-untyped-def]
    """Put the job on the link's list."""
    mine = shares.free[1]
    shares.free[1] = shares.share[mine, 3]
    head = shares.first_on_link[link]
    shares.share[mine, 0], shares.share[mine, 1], shares.share[mine, 2] = job, link, 0
    shares.share[mine, 3] = shares.first_share[job]
    shares.share[mine, 4], shares.share[mine, 5] = head, -1
    if head >= 0:
        shares.share[head, 5] = mine
    shares.first_on_link[link] = mine
    shares.first_share[job] = mine
    return mine


@jit
def refresh(shares, job):  # type: ignore[no-untyped-def]
    """Re-compute one job's factor from the totals of its links."""
    factor = shares.base[job]
    at = shares.first_use[job]
    while at >= 0:
        step, weight = shares.use[at, 0], shares.use_weight[at]
        worst = 0.0
        while at >= 0 and shares.use[at, 0] == step:
            mine = shares.use[at, 2]
            others = shares.total[shares.share[mine, 1]] - shares.share[mine, 2]
            worst = max(worst, shares.use[at, 1] + others / ONE_FLOW)
            at = shares.use[at, 3]
        factor += weight * worst
    shares.factor[job] = max(factor, 1.0)


@jit
def touched(shares, job, out_jobs):  # type: ignore[no-untyped-def]
    """The other jobs on this job's links, each once. Returns how many."""
    shares.free[2] += 1
    now = shares.free[2]
    shares.stamp[job] = now
    count = 0
    mine = shares.first_share[job]
    while mine >= 0:
        one = shares.first_on_link[shares.share[mine, 1]]
        while one >= 0:
            other = shares.share[one, 0]
            if shares.stamp[other] != now:
                shares.stamp[other] = now
                out_jobs[count] = other
                count += 1
            one = shares.share[one, 4]
        mine = shares.share[mine, 3]
    return count


@jit
def join(shares, job, rule, seed, steps, weights, duty, gpu_of_rank, wiring, spines, core_width, loads, out_jobs):  # type: ignore[no-untyped-def]
    """A job starts: record its uses, re-compute its factor and those of the jobs it meets.

    `duty` is the part of its time the job communicates (1: always). Returns how many others were re-computed (listed
    in `out_jobs`), or -1 if the pools are too small; then nothing changed.
    """
    shares.base[job] = 0.0
    flows_of = np.empty(gpu_of_rank.size, np.int64)
    links = np.empty((gpu_of_rank.size, LINKS_PER_FLOW), np.int64)
    for k in range(steps.shape[0]):
        kind, amount, block = steps[k, 0], steps[k, 1], steps[k, 2]
        flows = route_step(
            rule, seed, job, kind, amount, block, gpu_of_rank, wiring, spines, core_width, flows_of, links
        )
        step_loads(links, flows, loads)
        if not _add_step(shares, job, k, weights[k], links, flows, loads, duty):
            clear_loads(links, flows, loads)
            leave(shares, job, out_jobs)
            return -1
    refresh(shares, job)
    count = touched(shares, job, out_jobs)
    for i in range(count):
        refresh(shares, out_jobs[i])
    return count


@jit
def leave(shares, job, out_jobs):  # type: ignore[no-untyped-def]
    """A job stops: take its uses back and re-compute the jobs it met. Returns how many, listed in `out_jobs`."""
    count = touched(shares, job, out_jobs)
    at = shares.first_use[job]
    while at >= 0:
        following = shares.use[at, 3]
        shares.use[at, 3] = shares.free[0]
        shares.free[0] = at
        at = following
    mine = shares.first_share[job]
    while mine >= 0:
        following, after, before = shares.share[mine, 3], shares.share[mine, 4], shares.share[mine, 5]
        link = shares.share[mine, 1]
        shares.total[link] -= shares.share[mine, 2]
        if before >= 0:
            shares.share[before, 4] = after
        else:
            shares.first_on_link[link] = after
        if after >= 0:
            shares.share[after, 5] = before
        shares.share[mine, 3] = shares.free[1]
        shares.free[1] = mine
        mine = following
    shares.first_use[job], shares.first_share[job], shares.factor[job] = -1, -1, 1.0
    for i in range(count):
        refresh(shares, out_jobs[i])
    return count
