"""PROMOTEKNOB by hand (docs/semantics.md, rule 37): all waiting counts since submission or the last promotion, in one go or in many."""

from headway.core.events import NAMES
from headway.sim.api import simulate
from headway.workloads.workload import workload

POLICY = "tiresias-l?threshold=10&promote=2"


def crossings(rows, policy=POLICY, **given):
    """The times at which job 0 changed its queue, with the queue it came to; rows are submit and duration on the one GPU."""
    submit, duration = zip(*rows, strict=True)
    jobs = workload("by hand", submit, [1] * len(rows), duration)
    options = {"min_runtime": "0", "preemption_cost": "none"} | given
    entries = simulate(jobs, "1x1", policy, **options, keep_journal=True).run.entries
    return [(row["time"], row["level"]) for row in entries if NAMES[row["kind"]] == "Crossed" and row["job"] == 0]


def test_waiting_in_one_go():
    # Runs for 10 s, then waits behind three jobs that never leave the first queue: 20 s later it is promoted, and runs as a new job.
    assert crossings([(0, 100), (10, 8), (10, 8), (10, 8)])[:3] == [(10, 1), (30, 0), (40, 1)]


def test_waiting_in_many_goes_adds_up():
    # Ran 10, 1 and 1 s; waited 8, 8 and then 8 of the 9 s of job 3: 24 s are twice 12.
    assert crossings([(0, 100), (10, 8), (19, 8), (28, 9)])[:2] == [(10, 1), (36, 0)]


def test_running_in_between_puts_it_off():
    # Had it not run from 18 to 19 and from 27 to 28, it would have waited long enough at 34.
    assert (34, 0) not in crossings([(0, 100), (10, 8), (19, 8), (28, 9)])


def test_waiting_before_the_first_start_counts():
    # Job 0 waits for 9 s behind a job of the same instant, runs for 10, and needs 11 s more.
    jobs = workload("by hand", [0, 0, 19, 19], [1] * 4, [9, 100, 8, 8])
    result = simulate(jobs, "1x1", POLICY, min_runtime="0", preemption_cost="none", keep_journal=True)
    crossed = [(row["time"], row["level"]) for row in result.run.entries if NAMES[row["kind"]] == "Crossed"]
    assert crossed[:2] == [(19, 1), (30, 0)]


def test_both_counters_begin_anew_after_a_promotion():
    # Promoted at 30, it runs for 10 s into the second queue; then 20 s of waiting are needed again, whatever it waited before.
    rows = [(0, 100), (10, 8), (10, 8), (10, 4), (40, 8), (40, 8), (40, 8)]
    assert crossings(rows)[:4] == [(10, 1), (30, 0), (40, 1), (60, 0)]


def test_saving_is_not_waiting():
    # Stopped at 10, it saves until 15: 20 s of waiting are over at 35.
    assert crossings([(0, 100), (10, 8), (10, 8), (10, 8)], preemption_cost="5s")[:2] == [(10, 1), (35, 0)]


def test_without_a_knob_nobody_is_promoted():
    assert crossings([(0, 100), (10, 8), (10, 8), (10, 8)], "tiresias-l?threshold=10") == [(10, 1)]
