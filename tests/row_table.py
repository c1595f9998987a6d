"""Checks rows of a journal, while they are replayed, against the one table of what they mean (live/rows.py)."""

from collections.abc import Iterable, Iterator

from headway.live.rows import OVER, WITH_GPUS, row_meaning
from headway.live.state.cluster import ClusterState
from headway.live.state.records import JournalRow


def as_the_table_says(state: ClusterState, rows: Iterable[JournalRow]) -> Iterator[JournalRow]:
    """The rows, each of which must bring its job to the state and the segment that the one table of rows names."""
    for row in rows:
        job, meaning = state.jobs.get(row.job), row_meaning(row.kind, row.data)
        before = state.shown_state(job) if job else None
        yield row
        job = state.jobs.get(row.job)
        if job is None or (before is None and meaning.state is None):
            continue
        after = state.shown_state(job)
        assert after == (before if meaning.state is None else meaning.state), row
        if meaning.segment is not None:
            assert after.has_processes == (meaning.segment in WITH_GPUS), row
            assert after.final == (meaning.segment == OVER), row
