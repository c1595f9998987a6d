"""Nodes that Headway shares with others: what an executor reports of them, as facts of the journal.

Away: the node takes no jobs, for a reason outside of Headway. Back: it does again. Taken: others use this number of its GPUs. Nothing is
stored beside the engine's tables: a closed node that no operator drained is away, and seats of others are marked in the ledger.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headway.core.operations import close_node, open_node, set_withheld, withheld
from headway.core.tables.state import State
from headway.live.state.records import JournalRow, NodeReport

AWAY, BACK, TAKEN = "Away", "Back", "Taken"
KINDS = (AWAY, BACK, TAKEN)


def node_changes(
    tables: State, names: Sequence[str], drained: set[int], reports: Iterable[NodeReport]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The facts in what an executor reports, compared with the tables: kinds, each with its data."""
    numbers = {name: number for number, name in enumerate(names)}
    known = [(numbers[report.node], report) for report in reports if report.node in numbers]
    for node, report in known:
        closed = bool(tables.nodes["closed"][node])
        if report.away and not closed:
            yield AWAY, {"node": report.node, "why": report.away}
        elif not report.away and closed and node not in drained:
            yield BACK, {"node": report.node}
    now, free = withheld(tables).tolist(), tables.nodes["free"].tolist()
    # What Headway itself has given out it cannot withhold: that follows once it is free.
    wanted = {report.node: (min(report.taken, now[node] + free[node]), now[node]) for node, report in known}
    taken = {name: gpus for name, (gpus, before) in wanted.items() if gpus != before}
    if taken:
        yield TAKEN, {"gpus": taken}


def learn(tables: State, names: Sequence[str], row: JournalRow) -> None:
    """Take in such a fact."""
    if row.kind == TAKEN:
        set_withheld(tables, {names.index(name): int(gpus) for name, gpus in row.data["gpus"].items()}, row.time)
    else:
        change = close_node if row.kind == AWAY else open_node
        change(tables, names.index(row.data["node"]), row.time)
