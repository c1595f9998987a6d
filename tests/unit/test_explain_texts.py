"""The sentences of `explain`: facts in, one message and what would help out; words about reasons are those of headway/reasons.py."""

from tests.imagined import Virtual, Work
from tests.unit.test_live_queues import STOPPABLE, Asked, AskedOfRunning

from headway.cluster.queues import Queue, Queues
from headway.job_state import JobState
from headway.live.queries.explain import facts
from headway.live.queries.explain.explain import explain
from headway.live.queries.explain.text import PLAIN, texts
from headway.live.queries.reservations import COMES_FIRST, STAYS, TIME_LIMIT, Holder, Reserved
from headway.reasons import BY_CODE

NEEDS = facts.Needs(gpus=6, nodes=0, per_node=0, constraints="", eligible=2, cluster=2)


def said(*known: facts.Fact) -> str:
    return texts(known, 0.0)[0]


def helps(*known: facts.Fact) -> tuple[str, ...]:
    return texts(known, 0.0)[1]


def kept(*holders: Holder, unseen: int = 0) -> facts.KeptForIt:
    return facts.KeptForIt(Reserved(1, {"n000": 8}, None, None, None, holders, unseen), demotes=False)


def test_every_fact_without_values_has_a_sentence() -> None:
    assert set(PLAIN) == set(facts.Plain)


def test_drained_nodes_say_what_the_others_have() -> None:
    assert said(facts.Drained(NEEDS, 4, 1, ("n000",))) == (
        "it needs 6 GPUs, and nodes that take jobs have 4 GPUs (drained: n000)"
    )
    pairs = facts.Needs(gpus=8, nodes=2, per_node=4, constraints="", eligible=2, cluster=2)
    assert said(facts.Drained(pairs, 4, 1, ("n000",))) == (
        "it needs 2 nodes with 4 GPUs each, and 1 such node takes jobs (drained: n000)"
    )


def test_texts_from_elsewhere_are_left_as_they_are() -> None:
    """`/data` and host names began with a capital, as the beginning of a sentence."""
    assert said(facts.Plain.RUNNING, facts.Remark("cn07 does not answer")) == "it is running. cn07 does not answer"
    assert said(facts.Remark("less than 1 MB are free on /d")) == "less than 1 MB are free on /d"
    assert said(facts.Ended(JobState.FAILED, "python: not found")) == "python: not found"


def test_explain_and_the_list_of_reasons_use_the_same_words() -> None:
    pause = facts.RetryBackoff(2, "", 3.0)
    assert (said(pause), helps(pause)) == (
        "it failed 2 times and is tried again in 3.0 s",
        ("the pause after a failure ends",),
    )
    assert BY_CODE["retry_backoff"].helps == "the pause after a failure ends"
    assert said(facts.Held(3)) == f"it is {BY_CODE['held'].long}"
    assert helps(facts.Held(3)) == ("headway release 3",)
    assert helps(facts.ArrayLimit(2)) == ("a task of the array ends", "a higher limit after %")
    assert helps(facts.Follows((("ok", (1,)),))) == ("the jobs that it follows end",)


def test_without_a_bound_the_jobs_are_named_in_a_sentence() -> None:
    one = kept(Holder(13, 1, None, STAYS))
    assert "no bound can be given, because of job 13 (no time limit, cannot be preempted). Jobs" in said(one)
    several = kept(Holder(1, 1, None, STAYS), Holder(2, 1, None, STAYS), Holder(3, 1, None, COMES_FIRST), unseen=2)
    assert (
        "because of job 1 and job 2 (no time limit, cannot be preempted); job 3 (no time limit, comes first)"
        in said(several)
    )
    assert "no bound can be given, because of 2 jobs of other users" in said(kept(unseen=2))


def test_the_last_holder_is_named_only_if_all_holders_are_seen() -> None:
    """A job of the caller was named as the one that GPUs wait for, though a job of another user may hold them longer."""
    for unseen, named in ((0, True), (1, False)):
        reserved = Reserved(1, {"n000": 8}, 100.0, 100.0, None, (Holder(3, 1, 40.0, TIME_LIMIT),), unseen)
        message = said(facts.KeptForIt(reserved, demotes=False))
        assert "free in 100 s at the latest" in message
        assert ("when job 3 is gone because its time limit is over" in message) == named


def test_borrowed_gpus_say_what_others_leave_unused() -> None:
    borrowed = facts.Borrowed("b", 4, 0, (("a", 2), ("c", 1)), 60.0)
    assert said(borrowed) == (
        "its GPUs are borrowed: queue b uses 4 GPUs and has a guarantee of 0. "
        "Of what other queues are guaranteed, 2 GPUs of queue a and 1 GPU of queue c are unused: "
        "when jobs of these queues need the GPUs, borrowers give GPUs back after 60 s of notice, the last in the order first"
    )
    assert said(facts.Borrowed("b", 4, 0, (), 60.0)).endswith("No other queue leaves guaranteed GPUs unused")
    assert said(facts.Borrowed("b", 4, 0, None, 60.0)).endswith("has a guarantee of 0")


def test_a_borrower_is_not_told_that_its_own_queue_lends() -> None:
    pair = {**STOPPABLE, "queue": "b", "resources": {"accelerators": 2}}
    queues = Queues("q", (Queue("a", guaranteed_gpus=2), Queue("b", guaranteed_gpus=1)), notice_s=60.0)
    world = AskedOfRunning([Work(0.0, pair, 10.0)], "1x4", "best-effort", queues=queues)
    world.said = {}
    world.run()
    (message,) = {text for text in world.said.values() if "borrowed" in text}
    assert "Of what other queues are guaranteed, 2 GPUs of queue a are unused" in message


def test_a_job_within_the_guarantee_of_its_queue_is_served_first() -> None:
    """Each of two nodes has one free GPU, beside a job that cannot be preempted."""
    queues = Queues("q", (Queue("a", guaranteed_gpus=4), Queue("b")), half_life_s=3600.0)
    works = [Work(0.0, {"queue": "a"}, run_s) for run_s in (500.0, 5.0, 500.0)]
    works += [Work(6.0, {**STOPPABLE, "queue": "a", "resources": {"accelerators": 2}}, 50.0)]
    world = Asked(works, "2x2", "best-effort", queues=queues)
    world.asks = 4
    world.run()
    assert world.found is not None
    assert world.found.reason == "fragmentation"
    assert "Queue a uses 2 GPUs and has a guarantee of 4, so it is served first" in world.found.message
    assert "the rest of the guarantee lies on several nodes, beside jobs that keep their GPUs" in world.found.message
    assert "The account of its queue: 0.0 GPU-h with a half-life of 1 h, 0.0 over weight 1" in world.found.message


def test_a_starting_job_is_not_said_to_run() -> None:
    said_of: dict[str, str] = {}
    world = Virtual([Work(0.0, {}, 10.0)], "1x1", "best-effort")

    def look() -> None:
        job = world.state.jobs.get(1)
        if job and job.known and not job.final:
            said_of[world.state.job_state(job).name] = explain(world.state, job, world.time).message

    world.look = look  # type: ignore[method-assign]
    world.run()
    assert said_of["RUNNING"] == "it is running"
    assert said_of.get("STARTING", "it is starting") == "it is starting"
    assert said(facts.Plain.STARTING) == "it is starting"


def test_each_kind_of_dependency_has_a_clause() -> None:
    assert said(facts.Follows((("notok", (55,)), ("any", (57, 58))))) == (
        "job 55 must fail or be cancelled first; job 57 and job 58 must end first"
    )
    assert said(facts.Follows((("ok", (55,)), ("singleton", (3,))))) == (
        "job 55 must complete first; it is a singleton: earlier jobs of its user and name must end first: job 3"
    )


def test_gpus_are_such_gpus_only_if_the_job_has_constraints() -> None:
    plain = facts.Needs(gpus=8, nodes=0, per_node=0, constraints="", eligible=1, cluster=1)
    assert said(facts.TooLarge(1, plain, 4)) == "it needs 8 GPUs, and the cluster, which has changed, has 4 GPUs"
