"""A query chooses the same jobs, in the same order, when they are in memory and when they are in the table of finished jobs."""

import random
import sqlite3
import zlib
from contextlib import closing
from dataclasses import asdict, replace
from operator import attrgetter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.client.job import JobQuery, JobView
from headway.live.queries.archive import accounted, with_stored
from headway.live.queries.lists.selection import ANY, CONDITIONS, select
from headway.live.store.history import insert_finished
from headway.live.store.integrity.schema import SCHEMA

USERS, QUEUES, NAMES, STATES = (
    ("ada", "Bob", "ÄDA"),
    ("", "team-a"),
    ("", "Resnet", "bert 12", "Ünicode"),
    ("COMPLETED", "FAILED"),
)
NOTHING_MORE = zlib.compress(b"{}")  # what the table has beside its columns
TIMES = st.integers(0, 6).map(float)
JOBS = st.lists(
    st.builds(
        JobView,
        job_id=st.integers(1, 30),
        name=st.sampled_from(NAMES),
        user=st.sampled_from(USERS),
        state=st.sampled_from(STATES),
        gpus=st.integers(1, 4),
        queue=st.sampled_from(QUEUES),
        submitted_at=TIMES,
        started_at=st.none(),
        preemptions=st.just(0),
        ended_at=TIMES,
        array_id=st.none() | st.integers(1, 3),
        wait_s=st.just(0.0),
        gpu_hours=st.just(0.0),
    ),
    unique_by=attrgetter("job_id"),
    max_size=12,
)
FIELDS: dict[str, Any] = {
    "user": st.sampled_from(USERS),
    "states": st.frozensets(st.sampled_from((*STATES, "PENDING"))),
    "name": st.sampled_from(("e", "Res", "12", "res")),
    "text": st.sampled_from(("ä", "RES", "ada", "12", "1", "ü")),
    "queue": st.sampled_from(QUEUES),
    "array_id": st.integers(1, 3),
    "since": TIMES,
    "until": TIMES,
    "ended_since": TIMES,
    "descending": st.booleans(),
    "after_id": st.integers(0, 30),
    "limit": st.integers(1, 8),
}
# Few fields at a time: with all of them hardly a job would be left to differ in.
QUERIES = st.sets(st.sampled_from(sorted(FIELDS)), max_size=3).flatmap(
    lambda names: st.builds(JobQuery, **{name: FIELDS[name] for name in names})
)


def in_memory(jobs: list[JobView], query: JobQuery) -> list[int]:
    """The numbers of the jobs that the query chooses among these."""
    jobs = sorted(jobs, key=attrgetter("job_id"))
    names = {condition.column for condition in CONDITIONS.values()} | {"job_id"}
    columns: dict[str, Any] = {name: lambda i, name=name: getattr(jobs[i], name) for name in names - {"names"}}
    columns["names"] = lambda i: (jobs[i].job_id, jobs[i].name, jobs[i].user)
    return [jobs[i].job_id for i in select(query, range(len(jobs)), columns)][: query.limit]


@settings(max_examples=400)
@given(JOBS, QUERIES, st.randoms(use_true_random=False))
def test_jobs_in_memory_and_in_the_table_are_chosen_alike(
    jobs: list[JobView], query: JobQuery, chance: random.Random
) -> None:
    retired = {job.job_id for job in jobs if chance.random() < 0.5}
    here = [job for job in jobs if job.job_id not in retired]
    with closing(sqlite3.connect(":memory:")) as file:
        for statement in SCHEMA:
            file.execute(statement)
        for job in jobs:
            file.execute(
                "INSERT INTO jobs VALUES (?, ?, ?, 1, ?, 0, 0)", (job.job_id, job.user, job.submitted_at, job.array_id)
            )
        # Jobs in memory are in the table too, with an end that is out of date.
        stale = [replace(job, state="FAILED", user="nobody") for job in here]
        insert_finished(
            file, [(job, NOTHING_MORE) for job in [*stale, *(job for job in jobs if job.job_id in retired)]]
        )
        chosen = {job.job_id: job for job in here}
        views = [chosen[number] for number in in_memory(here, query)]
        found = with_stored(views, accounted(file, query, frozenset(chosen)), query)
    assert [view.job_id for view in found] == in_memory(jobs, query)


def test_every_field_that_restricts_is_drawn_here() -> None:
    """A new field of the query needs a condition, and a strategy above."""
    order = {"order", "descending", "after_id", "offset", "limit"}
    assert set(asdict(ANY)) - order == set(CONDITIONS)


def test_names_are_sorted_without_regard_to_capitals() -> None:
    names = ("b", "A", "C")
    columns: dict[str, Any] = {"job_id": lambda i: i + 1, "name": lambda i: names[i]}
    assert list(select(JobQuery(order="name"), range(3), columns)) == [1, 0, 2]
