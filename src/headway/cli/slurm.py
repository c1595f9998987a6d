"""`headway advise` and `headway steer`: beside a Slurm that goes on starting jobs. The first only looks, the second sets nice values."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.manager_options import DataOption, JsonOption, note, print_json, print_view
from headway.errors import BadInput
from headway.io.units import counted

if TYPE_CHECKING:
    from headway.slurm.steering.steer import Round

SlurmOption = Annotated[bool, typer.Option("--slurm", help="The Slurm whose commands work here (SLURM_CONF).")]
FOLDER = "slurm-steer"


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(steer)


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
    from headway.slurm.commands import Commands
    from headway.slurm.steering.journal import SteeringFolder
    from headway.slurm.steering.service import BY
    from headway.slurm.steering.steer import Steering
    from headway.slurm.steering.steer import steer as one_round

    _only_slurm(slurm, "steer")
    if by not in BY:
        raise BadInput(f"--by {by}: one of {', '.join(f'{name} ({what})' for name, what in BY.items())}")
    how = Steering(_thresholds(thresholds), by, hold, dry_run)
    folder, door = SteeringFolder(data_folder(data) / FOLDER), Commands(json=False)
    with folder.locked():
        if undo:
            _undo(folder, door, as_json)
            return
        pause_s = seconds(every, "--every")
        while True:
            _show(one_round(door, folder, how), folder.folder, as_json)
            if once or dry_run:
                return
            time.sleep(pause_s)


def _only_slurm(slurm: bool, command: str) -> None:
    if not slurm:
        raise BadInput(f"`headway {command}` needs --slurm: it is the only queue that it knows so far")


def _thresholds(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(":")]
    except ValueError:
        found = []
    if not found or found != sorted(found) or min(found) <= 0:
        raise BadInput(f"--thresholds {text}: ascending GPU-seconds, such as 3600:36000")
    return found


def _undo(folder: "object", door: "object", as_json: bool) -> None:
    from headway.slurm.steering.steer import undo as undo_all

    done = undo_all(door, folder)  # type: ignore[arg-type]
    if as_json:
        print_json(done)
    else:
        typer.echo(f"restored {counted(len(done.restored), 'job')}; {len(done.unchanged)} needed nothing or are gone")
    for job, why in done.refused.items():
        note(f"headway: job {job} could not be restored: {why}")
    if done.refused:
        raise BadInput("not all jobs are as they were: run the same command again")


def _show(found: "Round", folder: Path, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    queues = ", ".join(f"queue {queue}: {jobs}" for queue, jobs in found.queues.items())
    held = f"; held {len(found.held)}, released {len(found.released)}" if found.held or found.released else ""
    later = f"; {found.left_for_next} left for the next round" if found.left_for_next else ""
    print_view(f"{counted(found.waiting, 'job')} with GPUs wait ({queues}); set {len(found.changed)}{held}{later}")
    for job, why in found.refused.items():
        note(f"headway: job {job}: {why}")
