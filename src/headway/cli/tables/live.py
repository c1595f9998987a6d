"""Views that are kept up to date: `queue --watch` and `top`."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from headway.cli.tables.jobs import ON_GPUS, WAITING, header, in_order, jobs_table
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.client.client import Client

# Header lines and blank lines around the table of `top`.
AROUND = 9


def queue_view(
    client: "Client", *, user: str | None, states: Sequence[str] | None, name: str | None, limit: int
) -> RenderableType:
    """The queue as it is now: jobs with GPUs first, then those that wait."""
    status, nodes = client.status(), client.nodes()
    shown = client.jobs(user=user, state=ON_GPUS if states is None else states, name=name, limit=limit)
    if states is None and len(shown) < limit:
        shown += client.jobs(user=user, state=WAITING, name=name, limit=limit - len(shown))
    parts: list[RenderableType] = [header(status, nodes)]
    if shown:
        parts.append(jobs_table(in_order(shown), time.time()))
    else:
        parts.append(_dim("no jobs" if states else "nothing runs and nothing waits (--all shows ended jobs)"))
    if len(shown) >= limit:  # the manager counts the jobs of all users, and shows those that one may see
        parts.append(_dim(f"the first {limit:,}; there may be more (--limit shows more)"))
    return Group(*parts)


def _dim(text: str) -> Text:
    return Text(text, style="dim")


def top_view(client: "Client", height: int) -> RenderableType:
    """The whole cluster: nodes as rows of slots, waiting jobs by level and by reason, and the jobs."""
    status, nodes = client.status(), client.nodes()
    rows = max(5, height - AROUND - min(len(nodes), 8))
    running = client.jobs(state=ON_GPUS, limit=rows)
    waiting = client.jobs(state=WAITING, limit=max(3, rows - len(running)))
    levels = Counter(job.level for job in [*running, *waiting])
    reasons = Counter(job.reason for job in waiting if job.reason)
    parts: list[RenderableType] = [header(status, nodes), Text("")]
    parts += [_slots(node) for node in nodes[:8]]
    if len(nodes) > 8:
        parts.append(_dim(f"and {len(nodes) - 8:,} more nodes"))
    by_level = ", ".join(f"{count} at level {level}" for level, count in sorted(levels.items()))
    why = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    parts += [Text(""), _dim(f"queues: {by_level or 'empty'}" + (f"; waiting for: {why}" if why else ""))]
    jobs = [*in_order(running), *in_order(waiting)]
    parts.append(jobs_table(jobs[:rows], time.time()) if jobs else _dim("nothing runs and nothing waits"))
    if len(jobs) >= rows:
        parts.append(_dim("there may be more (headway queue shows more)"))
    return Group(*parts)


def _slots(node: dict[str, Any]) -> Text:
    """One node: a filled square per GPU in use, an empty one per free GPU."""
    free, gpus = int(node["free"]), int(node["gpus"])
    squares = "■" * min(64, gpus - free) + "□" * min(64, free)
    line = Text(f"{node['name']:<12}", style="bold").append(squares, style="green")
    state = "" if node["state"] == "open" else f"  {node['state']}"
    return line.append(state, style="yellow").append(f"  {gpus - free}/{gpus}", style="dim")


def watch_view(view: Callable[[], RenderableType], every_s: float, *, whole_screen: bool = False) -> None:
    """Show a view again and again until Ctrl-C; if the manager does not answer, show that and try again."""
    console = Console(highlight=False)
    try:
        with Live(view(), console=console, screen=whole_screen, auto_refresh=False) as live:
            while True:
                time.sleep(every_s)
                try:
                    live.update(view(), refresh=True)
                except HeadwayError as error:
                    live.update(Text(str(error), style="red"), refresh=True)
    except KeyboardInterrupt:
        return
