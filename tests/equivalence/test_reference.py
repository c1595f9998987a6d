"""The engine against a naive simulator: no index, no heap, everything worked out anew at every moment, on GPUs that are all alike."""

import math
import os
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.sim.api import simulate
from headway.workloads.workload import Workload, workload


@dataclass
class Job:
    """One job of the naive simulator."""

    number: int
    submit: float
    gpus: int
    left: float
    ran: float = 0.0
    service: float = 0.0
    level: int = 0
    waited: float = 0.0
    first: float = math.inf
    running: bool = False
    end: float = field(default=math.nan)


KEYS = {
    "fifo": lambda job: job.submit,
    "best-effort": lambda job: job.submit,
    "sjf": lambda job: job.left,
    "srtf": lambda job: job.left,
    "srsf": lambda job: job.left * job.gpus,
    "las": lambda job: job.ran,
    "2d-las": lambda job: job.service,
    "tiresias-l": lambda job: (job.level, job.first),
}
NEVER_PREEMPTS = ("fifo", "best-effort", "sjf")


def naive(jobs: Workload, gpus: int, policy: str, quantum: float, threshold: float, promote: float) -> list[float]:
    """The time at which each job ends."""
    rows = [
        Job(i, float(s), int(g), float(d))
        for i, (s, g, d) in enumerate(zip(jobs.submit_s, jobs.gpus, jobs.duration_s, strict=True))
    ]
    active: list[Job] = []
    now, waiting = 0.0, list(rows)
    while waiting or active:
        times = [waiting[0].submit] if waiting else []
        for job in active:
            if job.running:
                times.append(now + job.left)
                if policy == "tiresias-l" and job.level == 0 and quantum == math.inf:
                    times.append(now + (threshold - job.service) / job.gpus)
            elif policy == "tiresias-l" and job.level and promote < math.inf and quantum == math.inf:
                times.append(now + max(0.0, promote * job.ran - job.waited))
        if quantum < math.inf and any(not job.running for job in active):
            times.append((math.floor(now / quantum) + 1) * quantum)
        step = min(times) - now
        now = min(times)
        for job in active:
            if job.running:
                job.left -= step
                job.ran += step
                job.service += step * job.gpus
            else:
                job.waited += step
        for job in active:
            if job.running and job.left <= 1e-9:
                job.end = now
        active = [job for job in active if math.isnan(job.end)]
        for job in active:
            cross(job, policy, threshold, promote)
        while waiting and waiting[0].submit <= now:
            active.append(waiting.pop(0))
        while seat(active, gpus, policy, now):
            for job in active:
                cross(job, policy, threshold, promote)
    return [job.end for job in rows]


def cross(job: Job, policy: str, threshold: float, promote: float) -> None:
    """Demote a job that has attained the threshold; promote one that has waited long enough."""
    if policy == "tiresias-l" and job.running and job.level == 0 and job.service >= threshold - 1e-9:
        job.level = 1
    elif policy == "tiresias-l" and not job.running and job.level and job.waited >= promote * job.ran - 1e-9:
        job.level, job.service, job.ran, job.waited = 0, 0.0, 0.0, 0.0


def seat(active: list[Job], gpus: int, policy: str, now: float) -> bool:
    """Who runs from now on. True: someone had to stop, and nobody has started on those GPUs yet (docs/decisions/0048)."""
    stay = policy in NEVER_PREEMPTS
    order = sorted(active, key=lambda job: (not (stay and job.running), KEYS[policy](job), job.number))
    free = gpus - sum(job.gpus for job in active if job.running)
    stopped = []
    for job in order:
        if job.gpus <= gpus:
            gpus -= job.gpus
            if not job.running and job.gpus <= free:
                free -= job.gpus
                job.running, job.first = True, min(job.first, now)
        elif policy == "fifo":
            break
        elif job.running:
            stopped.append(job)
    for job in stopped:
        job.running = False
    return bool(stopped)


# Whole seconds, so that both simulators meet the same ties.
some_jobs = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 8), st.integers(1, 300)), min_size=1, max_size=25
).map(lambda rows: workload("made up", *zip(*rows, strict=True)))


@pytest.mark.parametrize("policy", list(KEYS))
@settings(max_examples=600 if os.environ.get("HEADWAY_LONG") else 60, deadline=None, derandomize=True)
@given(jobs=some_jobs, promote=st.sampled_from([math.inf, 8, 2, 1]), quantum=st.sampled_from([math.inf, 60, 7]))
def test_every_job_ends_when_the_naive_simulator_says(policy, jobs, promote, quantum):
    if policy != "tiresias-l":
        quantum = 60.0 if policy in ("las", "2d-las") else math.inf
    if policy == "tiresias-l":
        # Thresholds are crossed at exact binary fractions of a second: a tie is one in both simulators.
        jobs = replace(jobs, gpus=1 << (jobs.gpus % 4))
    else:
        promote = math.inf
    expected = naive(jobs, 8, policy, quantum, 320.0, promote)
    spec = f"tiresias-l?threshold=320&promote={promote}" if policy == "tiresias-l" else policy
    if policy == "tiresias-l" and quantum < math.inf:
        spec += f"&quantum={quantum}"
    found = simulate(jobs, "1x8", spec).jobs["end_s"]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_a_larger_mix_on_sixty_gpus():
    random = np.random.default_rng(7)
    n = 300
    jobs = workload(
        "larger",
        np.cumsum(random.integers(0, 60, n)),
        random.choice([1, 2, 4, 8, 16], n),
        random.integers(60, 7200, n),
    )
    for policy in KEYS:
        quantum = 60.0 if policy in ("las", "2d-las") else math.inf
        expected = naive(jobs, 60, policy, quantum, 3200.0, math.inf)
        found = simulate(jobs, "1x60", policy).jobs["end_s"]
        assert found.tolist() == pytest.approx(expected, abs=1e-6), policy
