"""The `headway` command. Heavy imports live inside the commands, so that `headway --help` stays quick."""

import contextlib
import gc
import os
import sys
from typing import Annotated

import typer

from headway import __version__
from headway.cli import cluster, control, demo, fabric, replay, serve, simulate, submit, sweep, trace
from headway.cli.collective import commands as collective
from headway.cli.machine import doctor
from headway.cli.operate import health, history, journal, queues, shell
from headway.cli.slurm import commands as slurm
from headway.cli.tables.terminal import plain_lines
from headway.core.compiler import notices
from headway.errors import HeadwayError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="When, where and how distributed training jobs run on a shared GPU cluster.",
)
ABOUT_TRACES = (simulate, sweep, trace, collective, fabric)
ABOUT_JOBS = (serve, submit, shell, cluster, control, history, queues, health, journal, doctor, replay, slurm, demo)
for group in (*ABOUT_TRACES, *ABOUT_JOBS):
    group.register(app)


def _print_version(wanted: bool) -> None:
    """Print the version and exit, if that is wanted."""
    if wanted:
        typer.echo(f"headway {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main() -> None:
    """Run the command line: bad input is one line on stderr and exit 1, never a traceback."""
    gc.set_threshold(
        100_000
    )  # start-up makes many objects that stay; looking through them for garbage takes a twentieth of it
    notices.listen(_note)
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:  # closed by the caller
                sys.stdout.flush()  # a full disk shows here, while an error can still be printed
    except HeadwayError as error:
        print(plain_lines(f"headway: {error}"), file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except MemoryError:
        print("headway: not enough memory: take a smaller input, or a machine with more", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(141) from None
    except OSError as error:
        what = f"{error.filename}" if error.filename else "cannot write the output"
        print(f"headway: {what}: {error.strerror or error}", file=sys.stderr)
        _drop_output()
        raise SystemExit(1) from None


def _note(line: str) -> None:
    """Say on stderr what takes so long; whoever closed it does not want to know."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"headway: {line}", file=sys.stderr, flush=True)


def _drop_output() -> None:
    """Discard what is still to be printed: Python would try again when it exits, and print another error."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
