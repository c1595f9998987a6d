"""The tables that `nodes` prints: one line per group of equal nodes, as in `sinfo`, and one line per node."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headway.cli.tables.jobs import short

_NUMBERED = re.compile(r"(.*?)(\d+)", re.ASCII)


def summarised(nodes: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Nodes that are alike together: by state, GPUs, what jobs may ask for, and whether all, some or none of the GPUs are free."""
    groups: dict[tuple[str, int, str, str], dict[str, Any]] = {}
    for node in nodes:
        gpus, free = int(node["gpus"]), int(node["free"])
        state = node["state"]
        if state == "open":
            state = "idle" if free == gpus else "full" if free == 0 else "mixed"
        kind, has = str(node.get("gpu_type", "")), ",".join(node.get("features", ()))
        new = {"state": state, "gpus_per_node": gpus, "gpu_type": kind, "features": has, "nodes": 0, "gpus": 0}
        group = groups.setdefault((state, gpus, kind, has), new)
        group["nodes"] += 1
        group["gpus"] += gpus
        group["free"] = group.get("free", 0) + free
        group.setdefault("names", []).append(node["name"])
    return [groups[key] for key in sorted(groups)]


def summary_table(groups: Sequence[dict[str, Any]]) -> Table:
    """One line per kind of node."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    more = _known(groups)
    for name in ("STATE", "NODES", "GPUS", "FREE", "EACH", *(title for _, title in more), "NAMES"):
        right = name in ("NODES", "GPUS", "FREE", "EACH")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    styles = {"idle": "", "mixed": "green", "full": "green"}
    for group in groups:
        state = Text(group["state"], style=styles.get(group["state"], "yellow"))
        numbers = (str(group[name]) for name in ("nodes", "gpus", "free", "gpus_per_node"))
        table.add_row(state, *numbers, *(Text(str(group[name])) for name, _ in more), Text(folded(group["names"])))
    return table


def _known(nodes: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Columns for what jobs may ask for, as far as anything is known."""
    every = list(nodes)
    columns = (("gpu_type", "TYPE"), ("features", "FEATURES"))
    return [(name, title) for name, title in columns if any(node.get(name) for node in every)]


def folded(names: Sequence[str], most: int = 120) -> str:
    """`n[000-003,007],gpu1`: names that differ in their number, as Slurm writes them."""
    runs: dict[tuple[str, int], list[list[int]]] = {}
    plain = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if not match:
            plain.append(name)
            continue
        of, number = runs.setdefault((match[1], len(match[2])), []), int(match[2])
        if of and of[-1][1] == number - 1:
            of[-1][1] = number
        else:
            of.append([number, number])
    words = []
    for (stem, width), of in runs.items():
        parts = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in of]
        words.append(f"{stem}{parts[0]}" if len(parts) == 1 and "-" not in parts[0] else f"{stem}[{','.join(parts)}]")
    return short(",".join([*words, *plain]), most)


def nodes_table(nodes: Iterable[dict[str, Any]]) -> Table:
    """One line per node."""
    table, nodes = Table(box=None, pad_edge=False, header_style="bold"), list(nodes)
    more = _known(nodes)
    for name in ("NODE", "STATE", "GPUS", "FREE", *(title for _, title in more), "JOBS"):
        table.add_column(name, justify="right" if name in ("GPUS", "FREE") else "left")
    for node in nodes:
        busy = int(node["gpus"]) - int(node["free"])
        style = "yellow" if node["state"] != "open" else "green" if busy else ""
        jobs = ", ".join(str(number) for number in node.get("jobs", ()))
        state = Text(node["state"], style=style)
        has = {"gpu_type": str(node.get("gpu_type", "")), "features": ",".join(node.get("features", ()))}
        what = (Text(has[name]) for name, _ in more)
        table.add_row(escape(node["name"]), state, str(node["gpus"]), str(node["free"]), *what, jobs)
    return table


def reservation_line(reservation: dict[str, Any]) -> str:
    """`n000 and n001 are kept for queue vision from 2027-01-31 08:00 to 2027-01-31 20:00`."""
    names, times = reservation["nodes"], (datetime.fromtimestamp(reservation[name]) for name in ("from", "to"))
    begin, end = (at.isoformat(" ", "minutes") for at in times)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if names[8:] else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'} kept for queue {reservation['queue']} from {begin} to {end}"
