"""`headway demo`, which `make run` starts: a manager, a dozen real training jobs, preemption at work, and a comparison with FIFO."""

from typing import Annotated

import typer

from headway.cli.manager_options import FAILED, JsonOption, print_json


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(demo)


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the manager serving at the end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a manager with 2x4 slots and a dozen small training jobs for about a minute, then compare with FIFO.

    Example: headway demo --keep
    """
    from dataclasses import asdict

    from rich.console import Console

    from headway.cli.replay import run_replay
    from headway.demo.run import Demo, summary

    console = Console(highlight=False, stderr=as_json)
    show = Demo(console)
    kept = False
    try:
        client = show.start()
        console.print(f"a manager on this machine with 2 nodes of 4 slots: {client.url}", style="dim")
        jobs = show.run()
        with console.status("compiling the simulator for the replay (once per machine)"):
            show.warm()
        replayed = run_replay(client, ["fifo"], None)
        kept = keep
    finally:
        show.stop(kept)
    if as_json:
        print_json({"jobs": [asdict(job) for job in jobs], "replay": asdict(replayed)})
    else:
        console.print()
        console.print(summary(jobs, replayed))
    if keep:
        console.print(f"\nstill serving: headway queue --data {show.folder}   (stop it with: kill {show.pid})")
    if any(job.state != "COMPLETED" for job in jobs):
        raise typer.Exit(FAILED)
