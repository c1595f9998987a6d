"""Policies from outside that look further: preempt_at, groups with a hook at each end, parameters; and what their functions may get wrong.

`examples/usual.py` uses all of it. Rebuilding its state from journals is in test_rebuild.py and test_live_rebuilt.py.
"""

import math
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.cluster import groups
from headway.cluster.named import cluster
from headway.core.compiler.mistakes import explained
from headway.core.engine import drive
from headway.core.events import STOP, TICKED
from headway.core.tables.journal import journal
from headway.errors import BadInput, HeadwayError
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.run import Setting, prepare, simulate_run
from headway.sim.world_python import SimulatedWorld
from headway.workloads.workload import Workload, workload

sys.path.append(str(Path(__file__).parents[2] / "examples"))
USUAL = "usual:Usual"
COSTLY = Setting(preemption_cost=30.0, seed=1)


def jobs_of(n: int = 120, users: int = 5) -> Workload:
    """Jobs of users, each of whom has a usual length."""
    chance = np.random.default_rng(7)
    user, lengths = chance.integers(users, size=n), 20.0 * 4.0 ** np.arange(users)
    submit, gpus = chance.exponential(60.0, n).cumsum(), chance.choice([1, 1, 2, 4], n)
    return workload(
        "users", submit, gpus, lengths[user] * chance.uniform(0.7, 1.4, n), user=[f"u{one}" for one in user]
    )


def prepared(policy: Any, jobs: Workload | None = None) -> Any:
    return prepare(jobs or jobs_of(), cluster("2x4"), find_policy(policy), find_placement("consolidated"), COSTLY)


def in_python(policy: Any) -> tuple[Any, np.ndarray]:
    """The engine after a run of the Python loop, and its journal."""
    engine, world = prepared(policy)
    book = journal(engine.state, 1 << 20, True)
    with explained():
        drive(engine, SimulatedWorld(engine, world, book))
    return engine, book.rows[: int(book.counts["rows"][0])]


def compiled(policy: Any, **setting: Any) -> Any:
    given = {"preemption_cost": 30.0, "seed": 1, **setting}
    return simulate_run(
        jobs_of(),
        cluster("2x4"),
        find_policy(policy),
        find_placement("consolidated"),
        Setting(**given),
        keep_journal=True,
    )


class Plain:
    """First come, first served; others of one's own attributes are given. `stops=True`: the latest first, which stops others."""

    def __init__(self, stops: bool = False, **given: Any) -> None:
        def latest(job, now, options):
            return -job.submit, 0.0

        def first(job, now, options):
            return job.submit, 0.0

        self.key = latest if stops else first
        for name, value in given.items():
            setattr(self, name, value)


# ---- functions of built-in policies


def counts(job, now, group, options):
    """Compiled."""
    group.own[0] += 1.0


def looks_up(job, now, group, options):
    """Called back: numba compiles no look-up by name."""
    group.own[0] += getattr(math, "pi".replace("pi", "tau")) / math.tau


@pytest.mark.parametrize("ended", [counts, looks_up])
@pytest.mark.parametrize("name", ["headway", "tiresias-l", "tiresias-g", "gittins", "2d-las"])
def test_a_policy_may_take_the_functions_of_a_built_in_one_and_watch_ends(name, ended):
    """What was compiled before comes from disk as machine code alone, and nothing could be linked with it."""
    built_in = find_policy(name)
    compiled(name)  # now they are on disk

    class Watching:
        group = ("user",)

    for field in fields(built_in):
        if field.name not in ("name", "group", "ended"):
            setattr(Watching, field.name, property(lambda _, given=getattr(built_in, field.name): given))
    Watching.ended = staticmethod(ended)
    engine, rows = in_python(Watching())
    table = engine.options.history.groups
    assert table["own"][0, 0] == table["jobs"][0] == len(jobs_of())
    assert compiled(Watching()).entries.tobytes() == compiled(name).entries.tobytes() == rows.tobytes()


# ---- the example


def test_the_example_learns_what_is_usual_in_both_loops_alike():
    engine, rows = in_python(USUAL)
    run = compiled(USUAL)
    assert rows.tobytes() == run.entries.tobytes()
    table = engine.options.history.groups
    user = jobs_of().user
    assert len(table) == 1 + len(set(user))
    for row in table[1:]:
        mine = engine.state.jobs["group"] == row["row"]
        assert row["jobs"] == mine.sum()
        assert len(set(user[mine])) == 1
    assert table["jobs"][0] == len(user)
    by_length = [table["own"][engine.state.jobs["group"][user == f"u{one}"][0], 0] for one in range(5)]
    assert by_length == sorted(by_length)
    assert np.diff(by_length).min() > 0.5  # each user's jobs are four times as long as those of the one before


def test_the_example_pays_off_and_its_parameters_matter():
    mean = {
        name: compiled(name).jobs["end"].mean() for name in ("fifo", USUAL, f"{USUAL}?trust=1e9", f"{USUAL}?rent=50")
    }
    assert mean[USUAL] < 0.9 * mean["fifo"]
    assert len(set(mean.values())) == 4


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (f"{USUAL}?trus=3", "unknown option of policy 'usual:Usual' 'trus': did you mean 'trust'?"),
        (f"{USUAL}?trust=much", "policy 'usual:Usual': trust=much is not a number"),
        (f"{USUAL}?rent=nan", "rent=nan is not a number"),
    ],
)
def test_parameters_that_are_unknown_or_no_numbers_are_refused_by_name(spec, words):
    with pytest.raises(BadInput) as raised:
        find_policy(spec)
    assert words in str(raised.value)


# ---- groups


@pytest.mark.parametrize(
    ("group", "rows"), [((), 1), ("user", 6), (("user", "gpus"), 16), (("name",), 1), (["queue", "model"], 1)]
)
def test_groups_are_what_jobs_have_in_common(group, rows):
    engine, _ = prepared(Plain(group=group))
    assert len(engine.options.history.groups) == rows
    assert engine.state.jobs["group"].max() == rows - 1


def test_too_many_groups_count_among_all_jobs(monkeypatch):
    monkeypatch.setattr(groups, "MOST_GROUPS", 3)
    engine, _ = prepared(Plain(group="user"))
    assert len(engine.options.history.groups) == 4
    assert set(engine.state.jobs["group"]) == {0, 1, 2, 3}


class Counts:
    """Keeps the GPU-seconds of a group and the last end; its key is what its user has had."""

    group = "user"
    learns = True

    def __init__(self) -> None:
        def key(job, now, options):
            return options.history.groups[job.group].own[0], 0.0

        def ended(job, now, group, options):
            group.own[0] += job.total
            group.own[1] = now

        self.key, self.ended = key, ended


class CountsInPython(Counts):
    """The same with what no compiler takes."""

    def key(self, job, now, options):
        return {"a": options.history.groups[job.group].own[0]}["a"], 0.0

    def ended(self, job, now, group, options):
        group.own[0] += {"a": job.total}["a"]
        group.own[1] = now

    def __init__(self) -> None:
        pass


def test_a_policy_that_cannot_be_compiled_is_called_back_with_rows_that_it_can_write():
    one, two = in_python(Counts()), in_python(CountsInPython())
    assert one[1].tobytes() == two[1].tobytes()
    assert one[0].options.history.groups.tobytes() == two[0].options.history.groups.tobytes()
    table, jobs = one[0].options.history.groups, one[0].state.jobs
    assert table["own"][0, 0] == pytest.approx(jobs["total"].sum())
    assert table["own"][0, 1] == jobs["end"].max()
    assert compiled(CountsInPython()).entries.tobytes() == one[1].tobytes()


# ---- preempt_at


def test_a_time_that_is_over_means_now_and_infinity_never():
    def always(job, stops, now, options):
        return -5.0

    def never(job, stops, now, options):
        return math.inf

    plain = compiled(Plain(stops=True))
    assert (plain.entries["kind"] == STOP).any()
    assert compiled(Plain(stops=True, preempt_at=always)).entries.tobytes() == plain.entries.tobytes()
    assert not (compiled(Plain(stops=True, preempt_at=never)).entries["kind"] == STOP).any()


def test_rent_is_the_preempt_at_of_a_policy_that_has_none_of_its_own():
    def own(job, stops, now, options):
        return job.queued + 0.5 * stops.gpu_s / job.gpus

    class InPython(Plain):
        def preempt_at(self, job, stops, now, options):
            return {0: job.queued + 0.5 * stops.gpu_s / job.gpus}[0]

    by_rent = compiled(Plain(stops=True, rent=0.5))
    assert (by_rent.entries["kind"] == TICKED).any()
    for policy in (Plain(stops=True, preempt_at=own), InPython(stops=True)):
        assert compiled(policy).entries.tobytes() == by_rent.entries.tobytes()


def test_what_would_be_stopped_is_told():
    """One job of four GPUs comes when two of two GPUs run, and stops both: what it is told makes the time at which it does."""

    def sum_of_all(job, stops, now, options):
        return 10_000.0 * stops.jobs + 1000.0 * stops.gpus + stops.gpu_s + stops.save + stops.k1 + 1e6 * stops.moves

    jobs = workload("three", [0.0, 1.0, 50.0], [2, 2, 4], [1e6, 1e6, 10.0])
    policy = find_policy(Plain(stops=True, preempt_at=sum_of_all))
    run = simulate_run(jobs, cluster("1x4"), policy, find_placement("consolidated"), COSTLY, keep_journal=True)
    stops = run.entries[run.entries["kind"] == STOP]
    assert stops["job"].tolist() == [1, 0]
    assert stops["time"].tolist() == [20_000.0 + 4000.0 + 2 * 2 * 30.0 + 30.0 - 1.0] * 2


# ---- mistakes


HERE = "test_policies_outside.py, line"


def raising_preempt_at(job, stops, now, options):
    if stops.jobs > 0:
        raise ValueError("this preempt_at fails")
    return now


def raising_ended(job, now, group, options):
    if job.attempt > 0:
        raise ValueError("this end fails")


def raising_change(job, now, options):
    if job.attempt > 0:
        raise ValueError("this change fails")
    return np.inf


class InPython:
    """Makes a function that numba refuses of any."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *given: Any) -> Any:
        return self.function(*given)


@pytest.mark.parametrize("wrap", [lambda function: function, InPython], ids=["compiled", "called back"])
@pytest.mark.parametrize("name", ["preempt_at", "ended", "change"])
def test_a_function_that_raises_is_one_line_that_names_the_place(name, wrap):
    policy = Plain(stops=True, **{name: wrap(globals()[f"raising_{name}"])})
    for run in (compiled, in_python):
        with pytest.raises(HeadwayError) as raised:
            run(policy)
        assert f"this {'end' if name == 'ended' else name} fails" in str(raised.value)
        assert HERE in str(raised.value)
        assert "\n" not in str(raised.value)


def wrong_preempt_at(job, stops, now, options):
    return math.nan if stops.jobs > 0 else now


def wrong_change(job, now, options):
    return math.nan if job.attempt > 0 else math.inf


@pytest.mark.parametrize("wrap", [lambda function: function, InPython], ids=["compiled", "called back"])
@pytest.mark.parametrize("name", ["preempt_at", "change"])
def test_a_time_that_is_no_number_is_an_error(name, wrap):
    policy = Plain(stops=True, **{name: wrap(globals()[f"wrong_{name}"])})
    for run in (compiled, in_python):
        with pytest.raises(HeadwayError, match=rf"^the policy's {name}\(job, .*returned NaN$"):
            run(policy)


def at_once(job, now, options):
    return now


def hardly_later(job, now, options):
    return now + 1e-7


def long_ago(job, now, options):
    return -1.0


@pytest.mark.parametrize("change", [at_once, hardly_later, long_ago])
def test_a_timer_that_rings_at_once_for_ever_is_an_error(change):
    for run in (compiled, in_python):
        with pytest.raises(HeadwayError, match=r"^the policy's change\(job, now, options\) asks for ever"):
            run(Plain(change=change))


def preempt_hardly_later(job, stops, now, options):
    return now + 1e-7


def test_a_preempt_at_that_is_always_about_to_come_is_an_error():
    with pytest.raises(HeadwayError, match=r"^no progress: .*`preempt_at`"):
        compiled(Plain(stops=True, preempt_at=preempt_hardly_later))


@pytest.mark.parametrize("later", [0.0, -50.0, 1e-7])
def test_a_placement_that_asks_to_be_asked_at_once_for_ever_is_an_error(later):
    class Impatient:
        def __init__(self) -> None:
            def place(nodes, leaves, fewest, job, options, out):
                out.counts[0].again = out.counts[0].now + later
                return False

            self.place = place

    with pytest.raises(HeadwayError, match=r"^no progress: "):
        headway.simulate(jobs_of(), "2x4", "fifo", placement=Impatient())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"preempt_at": 3}, "preempt_at is 3, not a function"),
        ({"ended": "x"}, "ended is 'x', not a function"),
        ({"group": "color"}, "group is ('color',), not of user, name, model, queue, gpus"),
        ({"group": 3}, "group is 3, not of user"),
        ({"rent": "much"}, "rent is 'much', not a number of at least 0"),
        ({"defragment_after": -1}, "defragment_after is -1, not a number"),
        ({"reserves": 1}, "reserves is 1, not True or False"),
        (
            {"preempt_at": lambda job, stops, now, options: None},
            "preempt_at(job, stops, now, options) must return a time",
        ),
        ({"preempt_at": lambda job, now, options: now}, "preempt_at(job, stops, now, options) failed: TypeError"),
        ({"ended": lambda job, now, options: None}, "ended(job, now, group, options) failed: TypeError"),
        ({"ended": lambda job, now, group, options: group.nothing}, HERE),
    ],
)
def test_mistakes_are_found_before_a_run(given, words):
    with pytest.raises(BadInput) as raised:
        find_policy(Plain(**given))
    assert words in str(raised.value)
    assert "policy Plain" in str(raised.value)


def test_a_hook_writes_its_group_and_nothing_of_the_job():
    def ended(job, now, group, options):
        job.gpus = 1

    with pytest.raises(BadInput, match="read-only"):
        find_policy(Plain(ended=ended))
