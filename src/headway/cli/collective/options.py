"""Options shared by the commands of `headway collective`, and their parsing."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.manager_options import number_option
from headway.io.numbers import Range

if TYPE_CHECKING:
    from headway.collectives.simulate.cost import CollectiveKind
    from headway.collectives.topology.model import Topology

IN_FLIGHT, CHUNKS = Range(1, 1024, whole=True), Range(1, 65_536, whole=True)
TOPOLOGY_HELP = "A preset (2D-SW_SW, ...), a YAML file, or switch:16:1200Gbps:700ns,ring:8:800Gbps:0ns."
TopologyOption = Annotated[str, typer.Option("--topology", help=TOPOLOGY_HELP)]
TopologiesOption = Annotated[
    list[str] | None, typer.Option("--topology", help=f"{TOPOLOGY_HELP} Repeatable; the paper's six if left out.")
]
SizeOption = Annotated[str, typer.Option("--size", help="Bytes per NPU, with a unit: 1GB, 100MiB.")]
KindOption = Annotated[
    str, typer.Option("--collective", help="all-reduce, reduce-scatter, all-gather or all-to-all.", metavar="KIND")
]
ChunksOption = Annotated[
    str,
    typer.Option("--chunks", help="Exact for baseline and themis, a maximum for best; auto: each chooses, up to 256."),
]
MostChunksOption = Annotated[
    str,
    typer.Option(
        "--chunks", help="Most chunks that any method may choose (usual: 256); a name with @64 fixes its own."
    ),
]
InFlightOption = Annotated[
    int,
    number_option(IN_FLIGHT, "--in-flight", help="Chunks in flight on a dimension; several are played step by step."),
]
BoundOption = Annotated[bool, typer.Option("--bandwidth-bound", help="Leave out all latencies.")]
PlanOption = Annotated[Path | None, typer.Option("--plan", help="Write the plan to this file, as JSON.")]
ReportOption = Annotated[Path | None, typer.Option("--report", help="Also write an HTML report to this file.")]


def network_from(text: str, bandwidth_bound: bool = False) -> "Topology":
    """The network that `--topology` names, perhaps without its latencies."""
    from headway.sim.network_files import topology_from

    network = topology_from(text)
    return network.without_latency() if bandwidth_bound else network


def kind_from(text: str) -> "CollectiveKind":
    """The collective of that name, or an error that names the closest."""
    from headway.collectives.simulate.cost import CollectiveKind
    from headway.errors import unknown

    known = [kind.value for kind in CollectiveKind]
    if text.lower() not in known:
        raise unknown("collective", text, known)
    return CollectiveKind(text.lower())


def networks_from(names: list[str] | None, bandwidth_bound: bool, as_json: bool) -> "Iterable[Topology]":
    """The networks of those names, or else the paper's six, with a bar on the terminal while they are worked on (the
    first run also compiles for some seconds)."""
    from rich.console import Console
    from rich.progress import track

    from headway.collectives.topology.presets import PAPER

    names = names or [topology.name for topology in PAPER]
    networks = [network_from(name, bandwidth_bound) for name in names]
    hidden = as_json or not sys.stderr.isatty()
    return track(networks, "simulating", console=Console(stderr=True), transient=True, disable=hidden)


@contextmanager
def waiting(what: str, as_json: bool) -> Iterator[None]:
    """A line on the terminal while something takes longer than a moment."""
    from rich.console import Console

    if as_json or not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(what):
        yield
