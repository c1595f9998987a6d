"""Selection of the jobs that a command acts on: numbers, ranges (`100-120`), tasks of an array (`12_3`, `12_[3-7]`, `12_*`), or filters."""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headway.client.job import JobQuery
from headway.client.transport import ApiError
from headway.errors import BadInput, unknown
from headway.io.numbers import JOB_NUMBER
from headway.io.units import counted, ranges
from headway.job_state import FINAL_STATES, SHOWN_STATES

if TYPE_CHECKING:
    from headway.client.client import Client
    from headway.client.job import JobView

MANY = 10  # jobs that a verb may be for without being asked again
MOST = 100_000  # as many as the tasks of an array: a typo such as 1-100000000 must not fill the memory
HOW = "write 12, 100-120, 12_3, 12_[3-7] or '12_*'"
_JOBS = re.compile(rf"({JOB_NUMBER})(?:-({JOB_NUMBER}))?")
_INDEX = "0|[1-9][0-9]{0,8}"
_TASKS = re.compile(rf"({JOB_NUMBER})_(?:({_INDEX})|\[([0-9,-]{{1,1000}})\]|\*)")
_INDICES = re.compile(rf"({_INDEX})(?:-({_INDEX}))?")


def chosen(client: "Client", words: Sequence[str], query: JobQuery, verb: str, yes: bool) -> list[int]:
    """The numbers of the jobs, in order and each once. Many are asked about on a terminal, and need `--yes` without one."""
    filtered = is_filtered(query)
    if words and filtered:
        raise BadInput("give either jobs or filters (--user, --state, --name, --queue), not both")
    if not words and not filtered:
        raise BadInput(f"which jobs? headway {verb} 12, or --user U --state PENDING; {HOW}")
    numbers = _by_query(client, query, verb) if filtered else [n for word in words for n in by_word(client, word)]
    numbers = list(dict.fromkeys(numbers))
    if (filtered or len(numbers) > MANY) and numbers:
        _confirm(numbers, verb, yes)
    return numbers


def is_filtered(query: JobQuery) -> bool:
    """Return whether a query restricts the jobs; an empty option does not."""
    return bool(query.user or query.states or query.name or query.queue)


def state_names(states: Iterable[str]) -> frozenset[str]:
    """Return the names of states as the manager knows them, of those that a person wrote."""
    names = [state.upper() for state in states]
    for state in names:
        if state not in SHOWN_STATES:
            raise unknown("state", state, SHOWN_STATES)
    return frozenset(names)


def by_word(client: "Client", word: str) -> list[int]:
    """The jobs that one word stands for."""
    if match := _JOBS.fullmatch(word):
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MOST:
            raise BadInput(f"{word!r}: a range goes from a smaller number to a larger one, over at most {MOST:,} jobs")
        if match[2] is None:
            return [first]
        return [job.job_id for job in client.jobs(after_id=first - 1, to_id=last)]
    if match := _TASKS.fullmatch(word):
        indices = _indices(word, match[2] or match[3])
        tasks = client.jobs(array_id=int(match[1]))
        if not tasks:
            raise ApiError(404, f"{word!r}: there is no array {match[1]}")
        return [task.job_id for task in tasks if indices is None or task.array_index in indices]
    raise BadInput(f"{word!r} names no job: {HOW}")


def one_job(client: "Client", word: str) -> int:
    """Return the number of the only job that a word stands for."""
    numbers = by_word(client, word)
    if not numbers:
        raise ApiError(404, f"there is no job {word}")
    if len(numbers) > 1:
        raise BadInput(f"{word!r} names {counted(len(numbers), 'job')}: give one, such as {numbers[0]}")
    return numbers[0]


def _indices(word: str, text: str | None) -> set[int] | None:
    """Return the indices of `3` or `3-7,9`; None: all."""
    if text is None:
        return None
    indices: set[int] = set()
    for part in text.split(","):
        bounds = _INDICES.fullmatch(part)
        span = range(int(bounds[1]), int(bounds[2] or bounds[1]) + 1) if bounds else range(0)
        if not 0 < len(span) <= MOST:
            raise BadInput(f"{word!r}: {HOW}")
        indices.update(span)
    return indices


def _by_query(client: "Client", query: JobQuery, verb: str) -> list[int]:
    """Return the numbers of the jobs that a query chooses; without states, of those in a state that the verb may apply to."""
    states = query.states or frozenset(each for each in SHOWN_STATES if verb == "requeue" or each not in FINAL_STATES)
    return [job.job_id for job in client.select(replace(query, states=states))]


def _confirm(numbers: list[int], verb: str, yes: bool) -> None:
    """Ask again before many jobs are changed; where nobody can answer, `--yes` is needed."""
    what = f"{verb} {counted(len(numbers), 'job')} ({ranges(numbers)})"
    if not yes:
        ask(f"{what}?", f"{what}: without a terminal this needs --yes")


def ask(question: str, without: str) -> None:
    """Go on only if somebody says yes; without a terminal refuse in these words."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput(without)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise BadInput("nothing was changed")


def first_of_array(jobs: Sequence["JobView"]) -> "JobView | None":
    """The only job of a verb, if it is the first task of an array, whose number stands for the whole in other places."""
    return jobs[0] if len(jobs) == 1 and jobs[0].array_id == jobs[0].job_id else None
