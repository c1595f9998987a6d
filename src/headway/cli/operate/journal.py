"""`headway journal`: look after the manager's journal, also while it runs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.manager_options import DataOption, JsonOption, note, print_json
from headway.client.folder import data_folder
from headway.errors import BadInput
from headway.io.units import counted

journal = typer.Typer(
    no_args_is_help=True, help="Check the manager's journal, back it up while it runs, restore it, and forget old jobs."
)
CopyArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A copy of a journal.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(journal, name="journal")


@journal.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A copy of a journal; default: the manager's own.")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read the whole journal and say whether it is intact; exits with 1 if it is not.

    Example: headway journal check
    """
    from headway.live.store.copies import check as look

    checked = look(file or data_folder(data) / "journal.db")
    if as_json:
        print_json({"ok": not checked.problems, **asdict(checked)})
    elif not checked.problems:
        jobs, rows, snapshots = counted(checked.jobs, "job"), counted(checked.events, "row"), checked.snapshots
        counts = f"{jobs} ({checked.finished:,} finished), {rows}, {counted(snapshots, 'snapshot')}"
        typer.echo(f"{checked.path} is whole: {counts}; the last job is {checked.last_job}")
    if checked.problems:
        ways = "restart the manager, which recovers what can be read, or `headway journal restore FILE` a backup"
        if as_json:
            raise typer.Exit(1)
        raise BadInput(f"{checked.path} is damaged ({checked.problems[0]}): {ways}")


@journal.command()
def backup(
    file: CopyArgument,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the journal into one file; a manager may go on writing meanwhile.

    Example: headway journal backup /backups/headway-$(date +%F).db
    """
    from headway.live.store.copies import back_up
    from headway.live.store.copies import check as look

    if file.exists() and not force:
        raise BadInput(f"{file} is there already: give another name, or --force to replace it")
    back_up(data_folder(data) / "journal.db", file)
    checked = look(file)
    if checked.problems:
        raise BadInput(
            f"{file} is a copy of a damaged journal ({checked.problems[0]}): keep older backups, and restart the manager"
        )
    if as_json:
        print_json({"file": str(file), "jobs": checked.jobs, "events": checked.events, "last_row": checked.last_row})
    else:
        typer.echo(f"{file}: {counted(checked.jobs, 'job')}, {counted(checked.events, 'row')}")


@journal.command()
def prune(
    before: Annotated[str, typer.Option(help="Forget jobs that ended before: 90d (ago), or 2026-11-01.")],
    runs: Annotated[bool, typer.Option("--runs", help="Also remove their folders, with all logs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask again.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget jobs that ended long ago: history, show, what they ran and, with --runs, their logs. Job numbers are not used again.

    A manager may go on meanwhile; the file becomes smaller where none writes to it.

    Example: headway journal prune --before 90d --runs
    """
    from headway.cli.operate.history import moment_of
    from headway.cli.operate.selection import ask
    from headway.live.store.prune import old_jobs
    from headway.live.store.prune import prune as forget

    folder, moment = data_folder(data), moment_of(before, "--before") or 0.0
    if not yes:
        what = f"forget {counted(old_jobs(folder, moment), 'job')} that ended before {before}"
        what += " and remove their logs" if runs else ""
        ask(f"{what}?", f"{what}: without a terminal this needs --yes")
    pruned = forget(folder, moment, runs)
    if as_json:
        print_json(asdict(pruned))
    else:
        logs = f", {counted(pruned.folders, 'folder')} removed" if runs else ""
        typer.echo(f"{counted(pruned.jobs, 'job')} forgotten{logs}; the journal has {pruned.bytes / 1e6:.1f} MB")


@journal.command()
def restore(file: CopyArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Put a backup in the place of the journal of a manager that is stopped; the journal that was there is kept under another name.

    Jobs that were submitted after the backup are lost; their numbers are not used again, and their runs are left alone.

    Example: headway journal restore /backups/headway-2026-11-16.db
    """
    from headway.live.store.copies import put_back

    folder = data_folder(data)
    aside = put_back(folder, file)
    if as_json:
        print_json({"journal": str(folder / "journal.db"), "set_aside": str(aside) if aside else None})
        return
    copy_note = f"; the journal that was there is kept as {aside.name}" if aside else ""
    typer.echo(f"restored {folder / 'journal.db'} from {file}{copy_note}")
    note("headway: start the manager again; it says what it finds")
