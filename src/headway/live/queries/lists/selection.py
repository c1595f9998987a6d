"""Selection of jobs by a query: of jobs in memory, and of jobs in the journal's table of finished jobs.

One table has both forms of every condition, so that they can be compared line by line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import contains, eq, ge, le
from typing import Any, Final

from headway.client.job import JobQuery
from headway.job_state import FINAL_STATES

Columns = Mapping[str, Callable[[int], Any]]  # by name: the value of a job, by its place in a list


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition that a field of a query sets on a column: `holds(value of the job, value of the field)`, and the same in SQL."""

    column: str
    holds: Callable[[Any, Any], bool]
    sql: str


def has_text(names: tuple[int, str, str], text: str) -> bool:
    """Return whether a number, name and user match a text: the number as a whole, the others in part, in any case."""
    job_id, name, user = names
    text = text.lower()
    return text in name.lower() or text in user.lower() or text == str(job_id)


def _not_over_before(ended: float | None, since: float) -> bool:
    return ended is None or ended >= since


CONDITIONS: Final[Mapping[str, Condition]] = {
    "user": Condition("user", eq, "finished.user = ?"),
    "states": Condition("state", lambda state, states: state in states, ""),  # as many places as there are states
    "name": Condition("name", contains, "instr(finished.name, ?)"),
    "text": Condition("names", has_text, "has_text(finished.job, finished.name, finished.user, ?)"),
    "queue": Condition("queue", eq, "finished.queue = ?"),
    "array_id": Condition("array_id", eq, "finished.job IN (SELECT id FROM jobs WHERE array_id = ?)"),
    "since": Condition("submitted_at", ge, "finished.submitted >= ?"),
    "until": Condition("submitted_at", le, "finished.submitted <= ?"),
    "ended_since": Condition("ended_at", _not_over_before, "finished.ended >= ?"),
}
ANY: Final = JobQuery()


def _given(query: JobQuery) -> Iterator[tuple[Condition, Any]]:
    """Yield the conditions of a query, with their values."""
    for name, condition in CONDITIONS.items():
        if (value := getattr(query, name)) != getattr(ANY, name):
            yield condition, value


def select(query: JobQuery, jobs: Iterable[int], columns: Columns) -> Iterator[int]:
    """Yield the jobs that a query chooses, in its order, without offset and limit; `jobs` are places in a list, by number."""
    tests = [(columns[condition.column], condition.holds, value) for condition, value in _given(query)]
    number, after, down = columns["job_id"], query.after_id, query.descending
    if after:
        tests.append((number, (lambda job, after: job < after) if down else (lambda job, after: job > after), after))
    by_number = query.order == "job_id"
    chosen: Iterable[int] = reversed(list(jobs)) if by_number and down else jobs
    for test in tests:
        chosen = _passing(chosen, *test)
    if by_number:
        yield from chosen
    else:  # jobs that are equal in the column come by number
        value, folded = columns[query.order], query.order == "name"  # capitals do not count

        def place(i: int) -> tuple[Any, Any]:
            return value(i).lower() if folded else value(i), number(i)

        yield from sorted(chosen, key=place, reverse=down)


def _passing(
    jobs: Iterable[int], column: Callable[[int], Any], holds: Callable[[Any, Any], bool], value: Any
) -> Iterator[int]:
    return (i for i in jobs if holds(column(i), value))


def is_over(query: JobQuery) -> bool:
    """Return whether a query may choose jobs that have ended."""
    return not query.states or bool(query.states & FINAL_STATES)


def where(query: JobQuery) -> tuple[str, list[Any]]:
    """Return the conditions of a query on the table of finished jobs, with their values."""
    parts, values = ["1"], list[Any]()
    for condition, value in _given(query):
        if condition.column == "state":
            states = sorted(value & FINAL_STATES)
            # The plus keeps several states from being sorted by number: the table is read in that order anyway.
            parts.append(f"{'+' if len(states) > 1 else ''}finished.state IN ({', '.join('?' * len(states))})")
            values += states
        else:
            parts.append(condition.sql)
            values.append(value)
    if query.after_id:
        parts.append(f"finished.job {'<' if query.descending else '>'} ?")
        values.append(query.after_id)
    return " AND ".join(parts), values
