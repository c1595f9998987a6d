"""The timeline of a run, computed from whole columns of the journal: which job held which GPUs when, and totals.

A run of 80,000 jobs has a million entries; everything here is array work, without a loop over entries.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.events import ENDED, MIGRATE, PACK, RESIZE, START, STARTED, STOP, STOPPED
from headway.errors import BadInput
from headway.sim.run import Run

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Holds:
    """One row for every time that a job held GPUs: from Start to Stopped or Ended."""

    job: Whole
    gpus: Whole
    start_s: Floats
    running_s: Floats  # when it began to make headway
    leaving_s: Floats  # when it was asked to stop; its end where it was not
    end_s: Floats
    seat_at: Whole
    again: NDArray[np.bool_]  # the job had run before

    def __len__(self) -> int:
        return len(self.job)

    @property
    def lost_gpu_s(self) -> float:
        """GPU-seconds held for saving and resuming, which preemption costs."""
        resuming = np.where(self.again, self.running_s - self.start_s, 0.0)
        return float(np.dot(self.gpus, resuming + self.end_s - self.leaving_s))


def holds(run: Run) -> Holds:
    """All holds of a run, by job and then in time."""
    if not len(run.entries):
        raise BadInput("this run kept no journal: simulate with keep_journal=True to draw it")
    order = np.argsort(run.entries["job"], kind="stable")
    kind, time = run.entries["kind"][order], run.entries["time"][order]
    starts = np.flatnonzero((kind == START) | (kind == PACK))
    # Within a job holds follow one another, so the k-th start belongs to the k-th end.
    ends = np.flatnonzero((kind == STOPPED) | (kind == ENDED))
    rows = order[starts]
    end_s = time[ends]
    return Holds(
        run.entries["job"][rows].astype(np.int64),
        run.entries["gpus"][rows].astype(np.int64),
        time[starts],
        _between(time, np.flatnonzero(kind == STARTED), starts, ends, end_s),
        _between(time, np.flatnonzero((kind == STOP) | (kind == RESIZE) | (kind == MIGRATE)), starts, ends, end_s),
        end_s,
        run.entries["seat_at"][rows],
        run.entries["attempt"][rows] > 1,
    )


def _between(time: Floats, places: Whole, low: Whole, high: Whole, otherwise: Floats) -> Floats:
    """The time at the first of `places` after `low`, if it lies before `high`."""
    if not len(places):
        return otherwise
    following = places[np.searchsorted(places, low).clip(max=len(places) - 1)]
    return np.where((low < following) & (following < high), time[following], otherwise)


def mean_in_bins(times_s: Floats, change: NDArray[Any], edges_s: Floats) -> Floats:
    """The exact mean in each bin of a quantity that starts at 0 and changes by `change` at `times_s`."""
    order = np.argsort(times_s, kind="stable")
    times, steps = times_s[order] - edges_s[0], change[order].astype(np.float64)
    edges = edges_s - edges_s[0]
    level = np.concatenate([[0.0], np.cumsum(steps)])
    moment = np.concatenate([[0.0], np.cumsum(steps * times)])
    at = np.searchsorted(times, edges)
    area = edges * level[at] - moment[at]
    return np.diff(area) / np.diff(edges)


def _both(on_s: Floats, off_s: Floats, amount: NDArray[Any], edges_s: Floats) -> Floats:
    return mean_in_bins(np.concatenate([on_s, off_s]), np.concatenate([amount, -amount]), edges_s)


class Timeline:
    """A run in equal bins of time."""

    def __init__(self, run: Run, bins: int) -> None:
        self.run, self.holds = run, holds(run)
        first, last = float(run.jobs["submit"].min()), float(run.jobs["end"].max())
        self.edges_s = np.linspace(first, max(last, first + 1.0), bins + 1)
        self.middles_s = (self.edges_s[1:] + self.edges_s[:-1]) / 2

    @cached_property
    def busy(self) -> tuple[Whole, Floats, Floats]:
        """When each GPU was held: (GPU, from, until). Where two jobs share a GPU, their times are merged."""
        hold, gpu = self.seats
        on, off = self.holds.start_s[hold], self.holds.end_s[hold]
        if not (self.run.entries["kind"] == PACK).any():
            return gpu, on, off
        time = np.concatenate([on, off])
        step = np.repeat([1, -1], len(gpu))
        both = np.concatenate([gpu, gpu])
        order = np.lexsort((-step, time, both))
        count = np.cumsum(step[order])
        begins = np.flatnonzero((count == 1) & (step[order] == 1))
        stops = np.flatnonzero(count == 0)
        return both[order][begins], time[order][begins], time[order][stops]

    @cached_property
    def seats(self) -> tuple[Whole, Whole]:
        """Every GPU of every hold: (row of the hold, GPU)."""
        counts = self.holds.gpus
        first = np.cumsum(counts) - counts
        hold = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(counts.sum()) - first[hold] + self.holds.seat_at[hold]
        return hold, self.run.seats[place].astype(np.int64) % self.run.cluster.total

    def utilisation(self) -> Floats:
        """The share of GPUs that are held."""
        gpu, on, off = self.busy
        held = _both(on, off, np.ones(len(gpu)), self.edges_s)
        return np.clip(held / self.run.cluster.total, 0.0, 1.0)

    def running(self) -> Floats:
        """Jobs that hold GPUs."""
        return _both(self.holds.start_s, self.holds.end_s, np.ones(len(self.holds)), self.edges_s)

    def waiting(self) -> Floats:
        """Jobs submitted and not ended that hold no GPU."""
        jobs = self.run.jobs
        active = _both(jobs["submit"], jobs["end"], np.ones(len(jobs)), self.edges_s)
        return np.maximum(active - self.running(), 0.0)

    @cached_property
    def idle_by_node(self) -> NDArray[np.int64]:
        """GPUs free on each node at the middle of each bin."""
        cluster = self.run.cluster
        node_of = np.repeat(np.arange(len(cluster.gpus)), cluster.gpus)
        gpu, on, off = self.busy
        used = _at_samples(node_of[gpu], len(cluster.gpus), on, off, self.middles_s)
        return np.array(cluster.gpus, np.int64)[:, None] - used

    def scattered(self) -> Floats:
        """The share of GPUs that are free on nodes partly in use."""
        idle = self.idle_by_node
        partly = idle < np.array(self.run.cluster.gpus)[:, None]
        return (idle * partly).sum(axis=0) / self.run.cluster.total

    def stranded(self) -> Floats:
        """The share of GPUs that are free although a job of no more GPUs waits: only its place is missing."""
        idle = self.idle_by_node.sum(axis=0)
        jobs = self.run.jobs
        sizes, size_of = np.unique(jobs["asked"].astype(np.int64), return_inverse=True)
        present = _at_samples(size_of, len(sizes), jobs["submit"], jobs["end"], self.middles_s)
        of_hold = size_of[self.holds.job]
        held = _at_samples(of_hold, len(sizes), self.holds.start_s, self.holds.end_s, self.middles_s)
        waits = present > held
        smallest = np.where(waits.any(axis=0), sizes[waits.argmax(axis=0)], np.iinfo(np.int64).max)
        return np.where(smallest <= idle, idle, 0) / self.run.cluster.total


def _at_samples(row: Whole, rows: int, on_s: Floats, off_s: Floats, samples_s: Floats) -> NDArray[np.int64]:
    """How many intervals of each row are open at each sample."""
    width = len(samples_s) + 1
    begin = np.bincount(row * width + np.searchsorted(samples_s, on_s), minlength=rows * width)
    end = np.bincount(row * width + np.searchsorted(samples_s, off_s), minlength=rows * width)
    return np.cumsum((begin - end).reshape(rows, width), axis=1)[:, :-1]


def finish_time_fairness(run: Run) -> Floats:
    """JCT over the time that the job would take alone on its share of the cluster (Mahajan et al., NSDI'20).

    The share is 1/N of the GPUs, with N the mean number of jobs present while this one is. A job that asks for more than its share runs
    that much slower in it. Above 1: the job would have been better off with a slice of its own.
    """
    jobs = run.jobs
    return (jobs["end"] - jobs["submit"]) / alone_s(jobs, run.workload.duration_s, run.cluster.total)


def alone_s(jobs: NDArray[Any], duration_s: Floats, gpus: float) -> Floats:
    """Seconds that each job would take on an equal part of `gpus` GPUs, shared with those of `jobs` that are present while it is."""
    submit, end = jobs["submit"], jobs["end"]
    times = np.concatenate([submit, end])
    steps = np.repeat([1.0, -1.0], len(jobs))
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(steps[order])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    present = (np.interp(end, times, area) - np.interp(submit, times, area)) / (end - submit)
    share = gpus / np.maximum(present, 1.0)
    alone: Floats = duration_s * np.maximum(1.0, jobs["asked"] / share)
    return alone


def slow_down(run: Run) -> Floats:
    """JCT over the time that the job needs on the GPUs it asked for."""
    return (run.jobs["end"] - run.jobs["submit"]) / run.workload.duration_s
