"""Nodes that take no jobs, and why: an operator drained the node, the executor reported it away, the disk is nearly full, or the manager is
closing. A node takes jobs if none of these is true.

GPUs that are used outside Headway are marked in the engine's table of GPU slots.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from headway.core.operations import close_node, open_node, set_withheld, withheld
from headway.live.rows import AWAY, BACK, DISK_FREE, DISK_FULL, DRAINED, RESUMED, TAKEN
from headway.live.state.cluster import ClusterState
from headway.live.state.records import JournalRow, NodeReport


def node_changes(state: ClusterState, reports: Iterable[NodeReport]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the differences between an executor's reports and the state: kinds of rows, each with its data."""
    tables, numbers = state.tables, {name: number for number, name in enumerate(state.cluster.nodes)}
    known = [(numbers[report.node], report) for report in reports if report.node in numbers]
    for _, report in known:
        if report.away and report.node not in state.away:
            yield AWAY, {"node": report.node, "why": report.away}
        elif not report.away and report.node in state.away:
            yield BACK, {"node": report.node}
    before, free = withheld(tables).tolist(), tables.nodes["free"].tolist()
    # GPUs of running jobs cannot be withheld before they are free.
    after = {node: min(report.taken, before[node] + free[node]) for node, report in known}
    taken = {report.node: after[node] for node, report in known if after[node] != before[node]}
    if taken:
        yield TAKEN, {"gpus": taken}


def learn(state: ClusterState, row: JournalRow) -> None:
    """Apply a row about nodes."""
    names = state.cluster.nodes
    if row.kind == TAKEN:
        gpus = {names.index(name): int(count) for name, count in row.data["gpus"].items()}
        set_withheld(state.tables, gpus, row.time)
    elif row.kind in (DISK_FULL, DISK_FREE):
        state.low_disk = row.data["why"] if row.kind == DISK_FULL else ""
        close_nodes(state, range(len(names)), row.time)
    else:
        closed = state.drained if row.kind in (DRAINED, RESUMED) else state.away
        (closed.add if row.kind in (DRAINED, AWAY) else closed.discard)(row.data["node"])
        close_nodes(state, [names.index(row.data["node"])], row.time)


def close_nodes(state: ClusterState, nodes: Iterable[int], now: float) -> None:
    """Close these nodes in the engine's tables, or open them if nothing closes them."""
    names, closed = state.cluster.nodes, state.tables.nodes["closed"]
    for node in nodes:
        close = state.closing or state.low_disk or names[node] in state.drained or names[node] in state.away
        if bool(close) != bool(closed[node]):
            (close_node if close else open_node)(state.tables, node, now)
