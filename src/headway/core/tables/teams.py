"""The table of teams: what each is guaranteed and may use at most, and what it uses.

Row 0 is the whole cluster. Queues follow, parents before their children; a job belongs to a queue without children. Where a queue limits
what each of its users may have, a row below it stands for each of them: it counts and limits, and has no say in the order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

CLUSTER: Final = 0  # the row of the whole cluster
NO_MOST: Final = 2**40  # no limit
NO_TEAMS: Final = 1  # rows of a table without queues: all that there is is the cluster

TEAM: Final = np.dtype(
    [
        ("weight", "f8"),  # the share that it asks for, beside those of its siblings
        ("since", "f8"),  # when the columns of GPU-seconds were settled
        ("usage", "f8"),  # GPU-seconds held, halved at every multiple of the half-life
        ("gpu_s", "f8"),  # GPU-seconds held
        ("borrowed_gpu_s", "f8"),  # of these, beyond its guarantee
        ("guarantee", "i8"),  # GPUs that it has back within the notice whenever it asks for them
        ("priority", "i8"),  # larger is served first
        ("most_gpus", "i8"),
        ("most_running", "i8"),  # jobs
        ("used", "i8"),  # GPUs of its jobs that start or run
        ("running", "i8"),  # jobs that start or run
        ("leaving", "i8"),  # GPUs of its jobs that are stopping
        ("stopping", "i8"),  # jobs that are stopping
        ("waiting", "i8"),  # jobs that wait or are held
        ("parent", "i4"),  # -1: the cluster
        ("level", "i4"),  # how far below the cluster it is
        ("of_user", "i4"),  # stands for one user of its parent
    ],
    align=True,
)


@dataclass(frozen=True, slots=True)
class Team:
    """One queue, or one user of a queue, as the table has it."""

    parent: int = CLUSTER
    weight: float = 1.0
    guarantee: int = 0
    priority: int = 0
    most_gpus: int = NO_MOST
    most_running: int = NO_MOST
    of_user: bool = False


def team_table(gpus: int, teams: Sequence[Team] = ()) -> NDArray[Any]:
    """Return the table of a cluster with `gpus` GPUs and these teams, each after its parent: the first has row 1."""
    table = np.zeros(1 + len(teams), TEAM)
    table[CLUSTER]["guarantee"], table[CLUSTER]["parent"], table[CLUSTER]["weight"] = gpus, -1, 1.0
    table["most_gpus"] = table["most_running"] = NO_MOST
    for row, team in enumerate(teams, 1):
        fill(table, row, team)
    return table


def fill(table: NDArray[Any], row: int, team: Team) -> None:
    """Make a row stand for a team; its parent comes before it."""
    assert team.parent < row
    for name in ("parent", "weight", "guarantee", "priority", "most_gpus", "most_running", "of_user"):
        table[name][row] = getattr(team, name)
    table["level"][row] = table["level"][team.parent] + 1


def with_rows(table: NDArray[Any], rows: int) -> NDArray[Any]:
    """The same table with more rows, for teams without jobs."""
    return np.concatenate([table, team_table(0, [Team()] * (rows - len(table)))[1:]])
