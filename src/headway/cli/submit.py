"""`headway submit`: a command, a job file or a batch script becomes a job."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from headway.cli.declared_options import takes
from headway.cli.manager_options import (
    CANCELLED,
    FAILED,
    NOT_FINISHED,
    Session,
    add_command,
    exit_code,
    note,
    number_option,
    print_notes,
)
from headway.cli.operate.selection import by_word
from headway.cli.tables.terminal import plain
from headway.client.transport import ApiError
from headway.errors import BadInput
from headway.io.files import open_file
from headway.io.units import seconds
from headway.live.jobfile.options import GPUS, JOB_OPTIONS, set_field, set_fields

if TYPE_CHECKING:
    from headway.client.job import JobView

COMMAND_WORDS = "headway.command"
SCRIPTS = {".sh", ".bash", ".sbatch", ".slurm", ".job"}


class CommandAfterDashes(TyperCommand):
    """Everything after `--` is the job's command, whatever it looks like."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the command out before options are read."""
        if "--" in args:
            cut = args.index("--")
            ctx.meta[COMMAND_WORDS] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    add_command(app, submit, cls=CommandAfterDashes)


@takes(JOB_OPTIONS)
def submit(
    session: Session,
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE | -- COMMAND ARGS...]", help="A job file (YAML) or a script with #SBATCH lines."),
    ] = None,
    gpus: Annotated[
        int | None, number_option(GPUS, "--gpus", "-g", help="GPUs in all, equally many on each node; default: 1.")
    ] = None,
    gpus_per_node: Annotated[
        int | None, number_option(GPUS, "--gpus-per-node", help="GPUs on each node; without --nodes: one node.")
    ] = None,
    *,
    key: Annotated[str | None, typer.Option(help="Submit at most once with this key, however often repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say where and when it would start.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Wait for its end; exit 0, 100 (failed) or 103 (cancelled).")
    ] = False,
    timeout: Annotated[str | None, typer.Option(help="Stop waiting after this long, with exit code 101.")] = None,
    **given: Any,
) -> None:
    """Submit a job: a command after --, a job file, or a batch script with #SBATCH lines. Options override the file.

    Example: headway submit --name resnet --gpus 4 --checkpoint ckpt --wait -- python train.py --epochs 90
    """
    timeout_s = None if timeout is None else seconds(timeout, "--timeout")
    if timeout_s is not None and not wait:
        raise BadInput("--timeout is the longest time of --wait: give --wait as well")
    words = context.meta.get(COMMAND_WORDS, [])
    spec = _spec(file, words)
    given["num_nodes"], per_node = _nodes_and_gpus(spec, given["num_nodes"], gpus, gpus_per_node)
    if given["after"] is not None:
        given["after"] = [need for text in given["after"] for need in _needs(session, text)]
    set_fields(spec, given)
    if per_node is not None:
        set_field(spec, "resources.accelerators", per_node)
    spec["workdir"] = str(Path(spec.get("workdir") or "").absolute())  # relative to the current folder
    if dry_run:
        _dry_run(session, spec)
        return
    answer = session.client.send_spec(spec, key)
    print_notes(answer.get("notes", ()))
    numbers = [int(number) for number in answer["job_ids"]]
    if wait:
        raise typer.Exit(_wait(session, numbers, timeout_s))
    if not session.printed_as_json({"job_id": numbers[0], "job_ids": numbers}):
        _print_numbers(numbers)


def _spec(file: Path | None, words: list[str]) -> dict[str, Any]:
    """Return the fields of the job, from its file or its command."""
    if file is None:
        if not words:
            raise BadInput("what should run? headway submit -- COMMAND ARGS..., or give a job file or a script")
        return {"command": words, "name": Path(words[0]).name[:64]}
    if not file.exists():
        raise BadInput(f"{file}: no such file; to run a command write: headway submit -- {file}")
    if file.suffix.lower() in {".yaml", ".yml"}:
        if words:
            raise BadInput(f"{file} says what runs: leave out `-- {words[0]}`")
        from headway.io.yaml_file import read_yaml
        from headway.live.jobfile.spec import JobSpec

        spec = read_yaml(file, JobSpec, "job file")
        return {"name": file.stem, **spec.model_dump(mode="json", exclude_unset=True)}
    with open_file(file) as script_file:
        if file.suffix.lower() not in SCRIPTS and script_file.read(2) != b"#!":
            raise BadInput(f"{file} is neither a job file (.yaml) nor a script (it begins with #!/bin/bash)")
    from headway.live.jobfile.sbatch import read_script

    script = read_script(file, tuple(words))
    print_notes(script.notes)
    return script.fields


def _nodes_and_gpus(
    spec: dict[str, Any], nodes: int | None, gpus: int | None, per_node: int | None
) -> tuple[int | None, int | None]:
    """Return `num_nodes` and the GPUs per node that the options set; None: as in the file. `gpus` counts all nodes."""
    if gpus is None:
        return (nodes or spec.get("num_nodes") or 1 if per_node else nodes), per_node
    nodes = nodes or (None if per_node else spec.get("num_nodes"))
    if per_node is not None:
        if gpus % per_node or (nodes and nodes * per_node != gpus):
            product = (
                f"{nodes} nodes with {per_node} each have {(nodes or 0) * per_node}"
                if nodes
                else f"{per_node} does not divide it"
            )
            raise BadInput(
                f"--gpus {gpus} is the number of GPUs in all, and {product}: leave out --gpus or --gpus-per-node"
            )
        return gpus // per_node, per_node
    if gpus % (nodes or 1):
        raise BadInput(
            f"--gpus {gpus} is the number of GPUs in all, which {nodes} nodes do not divide: "
            "ask for a multiple, or give --gpus-per-node"
        )
    return nodes, gpus // (nodes or 1)


def _needs(session: Session, text: str) -> list[str]:
    """Return the dependencies of one `--after`, with the tasks of an array as job numbers."""
    kind, colon, word = text.rpartition(":")
    if "_" not in word:
        return [text]
    numbers = by_word(session.client, word)
    if not numbers:
        raise ApiError(404, f"--after {text}: there is no job {word}")
    array = word.partition("_")[0]
    if int(array) in numbers and not word.endswith("*"):
        why = f"the first task of array {array} has the number {array}, which stands for the whole array"
        raise BadInput(f"--after {text}: {why}: write --after {kind}{colon}{array}, or leave the first task out")
    return [f"{kind}{colon}{number}" for number in numbers]


def _print_numbers(numbers: list[int]) -> None:
    if len(numbers) == 1:
        typer.echo(f"submitted job {numbers[0]}")
    else:
        typer.echo(f"submitted {len(numbers):,} jobs, {numbers[0]} to {numbers[-1]}")


def _dry_run(session: Session, spec: dict[str, Any]) -> None:
    answer = session.client.dry_run(spec)
    print_notes(answer.get("notes", ()))
    if not session.printed_as_json(answer):
        from headway.cli.tables.job_details import dry_run_lines

        for line in dry_run_lines(answer):
            typer.echo(line)


def _wait(session: Session, numbers: list[int], timeout_s: float | None) -> int:
    """Wait for all jobs; return the exit code of the worst."""
    import time

    until = None if timeout_s is None else time.monotonic() + timeout_s
    if not session.as_json:
        _print_numbers(numbers)
    ended: list[JobView] = []
    try:
        for number in numbers:
            ended.append(session.client.wait(number, None if until is None else max(0.0, until - time.monotonic())))
    except TimeoutError:
        ended += [session.client.job(number) for number in numbers[len(ended) :]]
    except KeyboardInterrupt:
        note(f"\nheadway: no longer waiting; the job continues: headway show {numbers[0]}")
        raise
    first = {"job_id": numbers[0], "job_ids": numbers, "state": ended[0].state, "exit_code": ended[0].exit_code}
    if not session.printed_as_json({**first, "jobs": ended}):
        for job in ended:
            code = "" if job.exit_code is None else f" with exit code {job.exit_code}"
            typer.echo(f"job {job.job_id} {job.state}{code}{': ' + plain(job.message) if job.message else ''}")
    codes = [exit_code(job) for job in ended]
    return next((code for code in (NOT_FINISHED, FAILED, CANCELLED) if code in codes), 0)
