"""`headway advise` and `headway steer`: beside a Slurm that goes on starting jobs. The first only looks, the second sets nice values."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.manager_options import DataOption, JsonOption, note, print_json, print_view
from headway.errors import BadInput
from headway.io.numbers import plain_number
from headway.io.units import counted

if TYPE_CHECKING:
    from headway.slurm.steering.steer import SteeringRound

SlurmOption = Annotated[bool, typer.Option("--slurm", help="The Slurm whose commands work here (SLURM_CONF).")]
FOLDER = "slurm-steer"
FEW = 3


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(advise)
    app.command()(steer)


def advise(
    slurm: SlurmOption = False,
    last: Annotated[str, typer.Option(help="Jobs submitted in the last 12h, 7d, 30d.")] = "30d",
    policy: Annotated[
        list[str] | None, typer.Option(help="A policy to try; may be repeated, or several with commas.")
    ] = None,
    placement: Annotated[str, typer.Option(help="Where jobs run in the replay.")] = "consolidated?strict=no",
    partition: Annotated[str, typer.Option(help="Only the nodes and the jobs of this partition.")] = "",
    as_json: JsonOption = False,
) -> None:
    """What would change, and for whom, if Slurm's jobs were ordered by another policy. Only looks, changes nothing.

    Example: headway advise --slurm --last 7d --policy headway,2d-las
    """
    from rich.console import Console

    from headway.cluster.nodes import Cluster
    from headway.io.units import seconds
    from headway.slurm.advising.advice import advise as replayed
    from headway.slurm.advising.history import history
    from headway.slurm.commands import Commands

    _only_slurm(slurm, "advise")
    door, now = Commands(), time.time()
    names = [name for text in policy or ["headway,2d-las"] for name in text.split(",") if name]
    nodes = [node for node in door.poll().nodes if node.gpus and (not partition or partition in node.partitions)]
    if not nodes:
        raise BadInput("Slurm has no nodes with GPUs here: see `sinfo -o '%N %G %P'`")
    cluster = Cluster("slurm", tuple(node.name for node in nodes), tuple(node.gpus for node in nodes))
    jobs, source = history(door, now - seconds(last, "--last"))
    chosen = [job for job in jobs if not partition or job.partition == partition]
    with Console(stderr=True).status("replaying (the first time on a machine, this compiles for about half a minute)"):
        advice = replayed(chosen, cluster, names, placement, now, source)
    if as_json:
        print_json(advice)
        return
    from headway.cli.tables.advice import advice_table, groups_table

    print_view(advice_table(advice))
    best = max(advice.changes, key=lambda change: change.ratio)
    label = f"{best.policy}{'' if best.preempts else ', no job preempted'}"
    users = tuple(sorted(best.users, key=lambda group: -group.jobs))
    for what, groups in (("size", best.sizes), ("user", users)):
        print_view("")
        print_view(groups_table(f"by {what}, under {label}", groups))
    for line in advice.caveats:
        print_view(f"- {line}", style="dim")


def steer(
    slurm: SlurmOption = False,
    undo: Annotated[bool, typer.Option("--undo", help="Give every job back the nice value it had, and end.")] = False,
    every: Annotated[str, typer.Option(help="Time between two rounds.")] = "30s",
    once: Annotated[bool, typer.Option("--once", help="One round, for instance from cron.")] = False,
    thresholds: Annotated[
        str, typer.Option(metavar="GPU_S[:GPU_S...]", help="GPU-seconds at which a job passes to the next queue.")
    ] = "3200",
    by: Annotated[str, typer.Option(help="Whose service counts: job (over its restarts), name or user.")] = "job",
    hold: Annotated[
        bool, typer.Option("--hold", help="Also hold jobs of later queues while jobs of the first wait.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be set, and set nothing.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Order the jobs that wait in Slurm by the GPU-time they attained (2D-LAS), by nothing but their nice values.

    Example: headway steer --slurm --by name --thresholds 3600:36000
    """
    from headway.client.folder import data_folder
    from headway.io.units import seconds
    from headway.slurm.answers import Unreadable
    from headway.slurm.commands import Commands
    from headway.slurm.requests import NoAnswer, Rejected
    from headway.slurm.steering.journal import SteeringFolder
    from headway.slurm.steering.service import BY
    from headway.slurm.steering.steer import Steering
    from headway.slurm.steering.steer import steer as one_round

    _only_slurm(slurm, "steer")
    if by not in BY:
        raise BadInput(f"--by {by}: one of {', '.join(f'{name} ({what})' for name, what in BY.items())}")
    how = Steering(_thresholds(thresholds), by, hold, dry_run)
    folder, door = SteeringFolder(data_folder(data) / FOLDER), Commands(nices=True)
    with folder.locked():
        if undo:
            _undo(folder, door, as_json)
            return
        pause_s = seconds(every, "--every")
        while True:
            try:
                done = one_round(door, folder, how)
            except (NoAnswer, Rejected, Unreadable) as error:
                if once or dry_run:
                    raise
                note(f"headway: no round this time: {error}")
            else:
                _show(done, as_json)
                _say_refused(done.refused)
                if once and done.refused:
                    raise BadInput(f"Slurm refused to change {counted(len(done.refused), 'job')}")
            if once or dry_run:
                return
            time.sleep(pause_s)


def _only_slurm(slurm: bool, command: str) -> None:
    if not slurm:
        raise BadInput(f"`headway {command}` needs --slurm: it is the only queue that it knows so far")


def _thresholds(text: str) -> list[float]:
    bounds = [plain_number(part) or 0.0 for part in text.split(":")]
    if min(bounds) <= 0 or bounds != sorted(bounds):
        raise BadInput(f"--thresholds {text}: ascending GPU-seconds, such as 3600:36000")
    return bounds


def _undo(folder: "object", door: "object", as_json: bool) -> None:
    from headway.slurm.steering.steer import undo as undo_all

    done = undo_all(door, folder)  # type: ignore[arg-type]
    if as_json:
        print_json(done)
    else:
        typer.echo(f"restored {counted(len(done.restored), 'job')}; {len(done.unchanged)} needed nothing or are gone")
    _say_refused(done.refused)
    if done.refused:
        raise BadInput("not all jobs are as they were: run the same command again")


def _say_refused(refused: dict[int, str]) -> None:
    """Why Slurm said no, for a few jobs; and what to do where it is a matter of rights."""
    for job, why in list(refused.items())[:FEW]:
        note(f"headway: job {job}: {why}")
    if len(refused) > FEW:
        note(f"headway: and {counted(len(refused) - FEW, 'more job')}")
    if any(word in why.lower() for why in refused.values() for word in ("invalid user id", "permission denied")):
        note(
            "headway: other people's jobs may be steered by root, SlurmUser and operators (sacctmgr, adminlevel=Operator)"
        )


def _show(steered: "SteeringRound", as_json: bool) -> None:
    if as_json:
        print_json(steered)
        return
    queues = ", ".join(f"queue {queue}: {jobs}" for queue, jobs in steered.queues.items())
    held = f"; held {len(steered.held)}, released {len(steered.released)}" if steered.held or steered.released else ""
    later = f"; {steered.left_for_next} left for the next round" if steered.left_for_next else ""
    wait = "waits" if steered.waiting == 1 else "wait"
    print_view(
        f"{counted(steered.waiting, 'job')} with GPUs {wait} ({queues}); set {len(steered.changed)}{held}{later}"
    )
