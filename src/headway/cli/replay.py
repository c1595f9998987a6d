"""`headway replay`: the jobs of a live journal under other policies, in the simulator."""

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.manager_options import Session, add_command, print_view
from headway.io.units import counted

if TYPE_CHECKING:
    from rich.table import Table

    from headway.client.client import Client
    from headway.live.queries.replay.replay import Replay


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    add_command(app, replay)


def replay(
    session: Session,
    policy: Annotated[list[str], typer.Option(help="A policy to try; may be repeated, or several with commas.")],
    last: Annotated[str | None, typer.Option(help="Only jobs submitted in the last 12h, 7d; default: all.")] = None,
    placement: Annotated[str | None, typer.Option(help="Another placement; default: the manager's.")] = None,
    queues: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A queues file (docs/queues.md); default: without queues of teams."),
    ] = None,
) -> None:
    """What the completion times of each user would have been under another policy, from the jobs that ran.

    Example: headway replay --last 7d --policy fifo,srtf
    """
    from headway.io.units import seconds

    names = [name for text in policy for name in text.split(",") if name]
    last_s = None if last is None else seconds(last, "--last")
    result = run_replay(session.client, names, last_s, placement, queues)
    if session.printed_as_json(result):
        return
    print_view(replay_table(result))
    for line in result.caveats:
        print_view(f"- {line}", style="dim")


def run_replay(
    client: "Client", policies: list[str], last_s: float | None, placement: str | None = None, queues: str | None = None
) -> "Replay":
    """Fetch the workload of a manager, and replay it in this process."""
    from rich.console import Console

    from headway.cluster.queues_file import queues_from
    from headway.live.queries.replay.replay import replay_workload

    workload = client.workload(last_s)
    teams = None if queues is None else queues_from(queues)
    with Console(stderr=True).status("simulating (the first time on a machine, this compiles for about half a minute)"):
        return replay_workload(workload, policies, placement, teams)


def replay_table(result: "Replay") -> "Table":
    """Completion times by policy: all jobs, then each user."""
    from rich.table import Table
    from rich.text import Text

    from headway.cli.tables.jobs import short, span

    users = sorted(result.measured.users)
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.title = f"completion time of {counted(result.averaged, 'job')}"
    for name in ("", "mean", "median", "p95", "all done", "preemptions"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    shown = users if len(users) > 1 else []
    for user in shown[:6]:
        table.add_column(f"mean of {short(user, 10)}", justify="right")
    for outcome in (result.measured, *result.simulated):
        label = "measured" if outcome is result.measured else f"simulated {outcome.name}"
        times = (outcome.mean_s, outcome.median_s, outcome.p95_s, outcome.makespan_s)
        preemptions = "" if outcome.preemptions is None else str(outcome.preemptions)
        table.add_row(Text(label), *map(span, times), preemptions, *(span(outcome.users[user]) for user in shown[:6]))
    return table
