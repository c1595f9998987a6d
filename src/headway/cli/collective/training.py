"""`headway collective iteration` and `together`: training iterations, and several collectives in flight at once."""

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.collective import options
from headway.cli.manager_options import JsonOption, print_json
from headway.errors import BadInput

if TYPE_CHECKING:
    from headway.collectives.simulate.graph import Request


def iteration(
    workload: Annotated[
        str, typer.Argument(help="resnet-50, resnet-152, gnmt, dlrm, transformer-1t, llm-405b, llm-8b.")
    ],
    topologies: options.TopologiesOption = None,
    tflops: Annotated[float, typer.Option("--compute-tflops", help="Sustained speed of one NPU.")] = 120.0,
    bucket: Annotated[str, typer.Option("--bucket", help="Gradients are sent in buckets of at least this.")] = "25MiB",
    chunks: Annotated[
        int, typer.Option("--chunks", help="Most chunks per bucket; the papers' rows use this number.")
    ] = 64,
    in_flight: options.InFlightOption = 1,
    bandwidth_bound: options.BoundOption = False,
    as_json: JsonOption = False,
) -> None:
    """One training iteration end to end: compute, exposed communication and speed-up of each scheduler.

    Example: headway collective iteration resnet-152 --topology 2D-SW_SW
    """
    from headway.cli.tables.collectives import show_iterations
    from headway.collectives.summary import mean_speedups
    from headway.collectives.training.iteration import Settings, iterate
    from headway.io.units import size_bytes

    settings = Settings(chunks, tflops, size_bytes(bucket), in_flight)
    networks = options.networks_from(topologies, bandwidth_bound, as_json)
    results = [iterate(workload, network, settings) for network in networks]
    if as_json:
        rows = [row.as_json() for result in results for row in result]
        print_json({"workload": workload, "rows": rows, "mean": mean_speedups(results)})
    else:
        show_iterations(workload, results, mean_speedups(results))


def together(
    requests: Annotated[
        list[str],
        typer.Argument(metavar="REQUEST...", help="KIND:SIZE[:ISSUED[:PRIORITY]], e.g. all-gather:10MB:1ms:5."),
    ],
    topology: options.TopologyOption,
    chunks: Annotated[int, typer.Option("--chunks", help="Most chunks per collective.")] = 64,
    in_flight: options.InFlightOption = 1,
    bandwidth_bound: options.BoundOption = False,
    as_json: JsonOption = False,
) -> None:
    """When each of several collectives ends that share a network; a higher priority goes first.

    Example: headway collective together all-reduce:1GB all-to-all:10MB:2ms:5 --topology 2D-SW_SW
    """
    from headway.cli.tables.collectives import show_together
    from headway.collectives.simulate.graph import run_together_freely
    from headway.collectives.training.iteration import COMPARED

    network = options.network_from(topology, bandwidth_bound)
    wanted = [_request(text) for text in requests]
    ends = {method: run_together_freely(network, wanted, method, chunks, in_flight) for method in COMPARED}
    if as_json:
        print_json({"topology": network.name, "requests": requests, "end_s": ends})
    else:
        show_together(requests, ends)


def _request(text: str) -> "Request":
    from headway.collectives.simulate.graph import Request
    from headway.io.units import seconds, size_bytes

    kind, *rest = text.split(":")
    if not 1 <= len(rest) <= 3 or (len(rest) == 3 and not rest[2].isdigit()):
        raise BadInput(f"request {text!r}: write KIND:SIZE[:ISSUED[:PRIORITY]], such as all-gather:10MB:1ms:5")
    total = size_bytes(rest[0])
    if total < 1:
        raise BadInput(f"request {text!r}: there is nothing to send")
    issued = seconds(rest[1]) if len(rest) > 1 else 0.0
    return Request(options.kind_from(kind), total, issued, int(rest[2]) if len(rest) > 2 else 0)
