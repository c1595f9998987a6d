"""Step by step: the compiled event-by-event mode against a naive one in plain Python; it converges; means stay close to it."""

import math

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.network.fabric.model import Fabric
from headway.network.sharing.exact import depart, enter, run_until, work_left
from headway.network.sharing.links import new_links
from headway.network.sharing.routing import LINKS_PER_FLOW, route_step
from headway.network.sharing.rules import Sharing
from headway.network.sharing.steps import STEP, destination, steps_on
from headway.network.sharing.uses import record_uses
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.api import simulate
from headway.sim.models.network import NetworkModel
from headway.sim.run import Setting, simulate_run
from headway.workloads.workload import workload

FABRIC = Fabric("small", "leaf-spine", tuple(server // 2 for server in range(12)), 4, 8)
SERVER, RATIO = 4, 10.0


class Naive:
    """Jobs that step through their iterations: every event works every load out anew from all flows."""

    def __init__(self, iterations):
        self.iterations, self.jobs, self.now = iterations, {}, 0.0

    def add(self, job, phases, duration):
        """Phases: (part of an iteration, flows by link) in order."""
        self.jobs[job] = {"phases": phases, "at": 0, "round": 0, "length": duration / self.iterations, "end": None}
        self.jobs[job]["rest"] = phases[0][0] * self.jobs[job]["length"]

    def speed(self, job):
        mine = job["phases"][job["at"]][1]
        loads = {}
        for other in self.jobs.values():
            if other["end"] is None:
                for link, flows in other["phases"][other["at"]][1].items():
                    loads[link] = loads.get(link, 0) + flows
        return 1.0 / max([loads[link] for link in mine], default=1)

    def run_to(self, limit):
        """Advance to a time, or to the end of all."""
        while True:
            going = {name: job for name, job in self.jobs.items() if job["end"] is None}
            ends = {name: self.now + job["rest"] / self.speed(job) for name, job in going.items()}
            first = min(ends.values(), default=math.inf)
            at = min(first, limit)
            if at == math.inf:
                return
            speeds = {name: self.speed(job) for name, job in going.items()}
            for name, job in going.items():
                job["rest"] -= (at - self.now) * speeds[name]
            self.now = at
            for name in [name for name in going if ends[name] <= at + 1e-12]:
                self.step(going[name])
            if at >= limit:
                return

    def step(self, job):
        job["at"] += 1
        if job["at"] == len(job["phases"]):
            job["at"], job["round"] = 0, job["round"] + 1
        job["rest"] = job["phases"][job["at"]][0] * job["length"]
        if job["round"] == self.iterations:
            job["end"] = self.now


def drawn(rng, iterations):
    """Jobs at random places: (GPUs, steps, duty, duration, start)."""
    free, jobs = list(rng.permutation(48)), []
    while len(free) >= 4:
        size = min(int(rng.choice([4, 6, 8, 12])), len(free))
        order = np.sort(np.array([free.pop() for _ in range(size)]))
        steps = np.zeros(32, STEP)
        count = steps_on(int(rng.integers(3)), order, SERVER, RATIO, steps)
        jobs.append((order, steps[:count].copy(), rng.uniform(0.1, 0.6), rng.uniform(50, 200), rng.uniform(0, 100)))
    return sorted(jobs, key=lambda job: job[4])


def phases_of(links, j, order, steps, duty):
    """What the naive world is told: flows by link, counted here from the paths."""
    silent, phases = 1.0 - duty, []
    for step in steps:
        assert sorted(destination(step, len(order), rank) for rank in range(len(order))) == list(range(len(order)))
        paths = np.empty((len(order), LINKS_PER_FLOW), np.int64)
        flows = {}
        for path in paths[: route_step(links, j, order, step, paths)].tolist():
            for link in path:
                if link >= 0:
                    flows[link] = flows.get(link, 0) + 1
        if flows:
            phases.append((duty * step["weight"], flows))
        else:
            silent += duty * step["weight"]
    return [(silent, {}), *phases]


@pytest.mark.parametrize("iterations", [1, 3])
def test_the_compiled_mode_is_the_naive_one(iterations, rounds):
    slowed = 0
    for seed in range(rounds(4, 100)):
        rng = np.random.default_rng(seed)
        jobs, naive = drawn(rng, iterations), Naive(iterations)
        links = new_links(FABRIC, Sharing(exact=iterations), seed, len(jobs), 1 << 14)
        ends = {}
        starts = [*(job[4] for job in jobs), math.inf]
        for j, ((order, steps, duty, duration, start), later) in enumerate(zip(jobs, starts[1:], strict=True)):
            naive.run_to(start)
            phases = phases_of(links, j, order, steps, duty)
            naive.add(j, phases, duration)
            links.jobs["duty"][j], links.jobs["iteration"][j] = duty, duration / iterations
            assert record_uses(links, j, order, steps)
            enter(links, j, duration, start)
            while (ended := run_until(links, later))[1] >= 0:
                ends[int(ended[1])] = float(ended[0])
                depart(links, ended[1], ended[0])
        naive.run_to(math.inf)
        expected = {j: job["end"] for j, job in naive.jobs.items()}
        assert ends == pytest.approx(expected, rel=1e-9)
        slowed += sum(expected[j] - jobs[j][4] > jobs[j][3] * 1.05 for j in expected)
        assert not links.directed["load"].any()
    assert slowed > 5, "hardly anybody met: the test is too tame"


def test_a_job_that_is_stopped_goes_on_where_it_was():
    links = new_links(FABRIC, Sharing(exact=5), 0, 1, 1 << 12)
    order, steps = np.arange(0, 48, 4), np.zeros(32, STEP)
    count = steps_on(2, order, SERVER, RATIO, steps)
    links.jobs["duty"], links.jobs["iteration"] = 0.5, 20.0
    whole = None
    for stops in ([], [13.0], [13.0, 47.5, 90.0]):
        left, now = 100.0, 0.0
        for until in [*stops, math.inf]:
            assert record_uses(links, 0, order, steps[:count])
            enter(links, 0, left, now)
            now, ended = run_until(links, until)
            left = work_left(links, 0, now)
            depart(links, 0, now)
        assert ended == 0
        assert left == 0.0
        whole = whole or now
        assert now == pytest.approx(whole, rel=1e-9)
    assert whole > 110


def stretch(network, load=0.6, gpus=2048, mix="vclos-large", jobs=5000, placement="consolidated?strict=no"):
    """Mean of time run / time alone under FIFO, per job and weighted by the GPU time of the job."""
    where = f"vclos-{gpus}"
    trace = f"synthetic:{mix}?jobs={jobs}&load={load}&cluster={where}"
    run = simulate(
        trace, where, "fifo", placement=placement, network=network, min_runtime="0", preemption_cost="none"
    ).run
    ratio = run.jobs["total"] / run.jobs["gpus"] / run.workload.duration_s
    return ratio.mean(), np.average(ratio, weights=run.workload.duration_s * run.workload.gpus)


def test_ecmp_stretches_run_times_by_about_four_per_cent():
    """An independent audit: vclos-large, 2,048 GPUs, FIFO, load 0.6, exact: +4.1 % (3.5 to 4.7). The model before said under 2 %."""
    found = stretch("ecmp?exact=10")[0]
    assert 1.035 < found < 1.047


def test_more_iterations_change_little():
    found = [stretch(f"ecmp?exact={iterations}", jobs=2000)[1] - 1 for iterations in (1, 3, 10, 30)]
    assert abs(found[2] - found[3]) < 0.1 * found[3]
    assert all(abs(one - found[3]) < 0.25 * found[3] for one in found)


@pytest.mark.parametrize(
    ("mix", "gpus", "load"), [("vclos-large", 2048, 0.6), ("vclos-large", 512, 0.6), ("vclos-tpu", 2048, 0.5)]
)
def test_means_are_within_a_fifth_of_the_exact_stretch(mix, gpus, load):
    for placement in ("consolidated?strict=no", "leaf-aware"):
        means, exact = (stretch(network, load, gpus, mix, 2000, placement) for network in ("ecmp", "ecmp?exact=10"))
        for mean, one in zip(means, exact, strict=True):
            assert mean - 1 == pytest.approx(one - 1, rel=0.2)


def test_leaf_aware_placement_spares_most_of_it():
    blind, aware = stretch("ecmp?exact=3", jobs=2000)[1], stretch("ecmp?exact=3", jobs=2000, placement="leaf-aware")[1]
    assert 1 < aware < blind - 0.02


def test_a_job_without_work_ends_at_once():
    jobs = workload("x", [0.0, 1.0], [16, 16], [0.0, 10.0])
    setting = Setting(network=NetworkModel("ecmp?exact=3", FABRIC))
    run = simulate_run(jobs, cluster("12x4"), find_policy("fifo"), find_placement("spread"), setting)
    assert run.jobs["end"][0] == 0.0
    assert run.jobs["end"][1] >= 11.0
