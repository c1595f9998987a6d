"""`headway collective iteration` and `together`: training iterations, and several collectives in flight at once."""

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.collective import options
from headway.cli.manager_options import JsonOption, number_option, print_json
from headway.errors import BadInput
from headway.io.files import read_file
from headway.io.json_file import shown
from headway.io.numbers import Range, plain_whole

if TYPE_CHECKING:
    from headway.collectives.simulate.graph import CollectiveRequest
    from headway.collectives.training.textfile import TextWorkload
    from headway.collectives.training.workloads import TrainingWorkload


# Bytes of a value; 16-bit gradients are usual, and what the papers' files have where they say it.
PRECISIONS = {"fp16": 2, "bf16": 2, "fp32": 4}
MOST_FILE_BYTES = 50_000_000


def iteration(
    workload: Annotated[
        str,
        typer.Argument(
            help="resnet-50, resnet-152, gnmt, dlrm, dlrm-large, transformer-1t, llm-405b, llm-8b, or a file of ASTRA-sim."
        ),
    ],
    topologies: options.TopologiesOption = None,
    tflops: Annotated[
        float, number_option(Range(1e-3, 1e9), "--compute-tflops", help="Sustained speed of one NPU; a file has times.")
    ] = 120.0,
    bucket: Annotated[
        str | None,
        typer.Option("--bucket", help="Gradients go in buckets of at least this; 25MiB, or each layer of a file."),
    ] = None,
    precision: Annotated[
        str, typer.Option("--precision", help="Of gradients: fp16, bf16 or fp32; a file has bytes.")
    ] = "fp16",
    chunks: Annotated[
        int, number_option(options.CHUNKS, "--chunks", help="Most chunks per bucket; the papers' rows use this number.")
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
    from headway.collectives.training.iteration import BUCKET_BYTES, Settings, iterate
    from headway.errors import unknown
    from headway.io.units import size_bytes

    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    model, from_file = _workload(workload)
    usual = 1 if from_file else BUCKET_BYTES
    settings = Settings(chunks, tflops, size_bytes(bucket) if bucket else usual, in_flight, PRECISIONS[precision])
    networks = options.networks_from(topologies, bandwidth_bound, as_json)
    results = [iterate(model, network, settings) for network in networks]
    of = "bytes as in the file" if from_file else f"{precision} gradients"
    if as_json:
        rows = [row.as_json() for result in results for row in result]
        told = {"workload": model.name, "gradients": of, "rows": rows, "mean": mean_speedups(results)}
        print_json(told)
    else:
        show_iterations(f"{model.name}, {of}", results, mean_speedups(results))


def _workload(name: str) -> "tuple[TrainingWorkload | TextWorkload, bool]":
    """A workload by name, or from a file; and whether it is from a file."""
    from headway.collectives.training.textfile import workload_from_text
    from headway.collectives.training.workloads import workload

    if not name.endswith(".txt"):
        return workload(name), False
    try:
        return workload_from_text(read_file(name, MOST_FILE_BYTES).decode("utf-8-sig"), name), True
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise BadInput(f"cannot read workload {name}: {reason}") from None


def together(
    requests: Annotated[
        list[str],
        typer.Argument(metavar="REQUEST...", help="KIND:SIZE[:ISSUED[:PRIORITY]], e.g. all-gather:10MB:1ms:5."),
    ],
    topology: options.TopologyOption,
    chunks: Annotated[int, number_option(options.CHUNKS, "--chunks", help="Most chunks per collective.")] = 64,
    in_flight: options.InFlightOption = 1,
    bandwidth_bound: options.BoundOption = False,
    as_json: JsonOption = False,
) -> None:
    """When each of several collectives ends that share a network; a higher priority goes first.

    Each method takes the number of chunks with which all of them end soonest; with few large chunks an urgent one may wait longer.

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


def _request(text: str) -> "CollectiveRequest":
    from headway.collectives.simulate.graph import CollectiveRequest
    from headway.io.units import seconds, size_bytes

    kind, *rest = text.split(":")
    priority = plain_whole(rest[2]) if len(rest) > 2 else 0
    if not 1 <= len(rest) <= 3 or priority is None:
        raise BadInput(f"request '{shown(text)}': write KIND:SIZE[:ISSUED[:PRIORITY]], such as all-gather:10MB:1ms:5")
    total = size_bytes(rest[0])
    if total < 1:
        raise BadInput(f"request {text!r}: there is nothing to send")
    issued = seconds(rest[1]) if len(rest) > 1 else 0.0
    return CollectiveRequest(options.kind_from(kind), total, issued, priority)
