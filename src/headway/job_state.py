"""The states of a job, one list for the engine, the live manager, its clients and the command line. Standard library only."""

from enum import IntEnum


class JobState(IntEnum):
    """A job's state. The engine keeps the number, people see the name; FUTURE (not submitted yet) is never shown."""

    FUTURE = 0
    PENDING = 1
    HELD = 2
    STARTING = 3
    RUNNING = 4
    STOPPING = 5
    COMPLETED = 6
    FAILED = 7
    CANCELLED = 8
    TIMEOUT = 9

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self >= JobState.COMPLETED

    @property
    def has_processes(self) -> bool:
        """Whether the job holds GPUs, and processes may run on them."""
        return JobState.STARTING <= self <= JobState.STOPPING


FINAL_STATES = frozenset(state.name for state in JobState if state.final)
SHOWN_STATES = tuple(state.name for state in JobState if state is not JobState.FUTURE)
