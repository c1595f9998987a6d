"""The sweep file: lists of traces, clusters, policies and the rest in YAML; their grid is the cells to run."""

import itertools
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headway.errors import BadInput
from headway.io.yaml_file import read_yaml
from headway.sim.sweep.cell import Cell

# More cells than this are a slip: a cell takes at least a few milliseconds, and has a file of its own.
MOST_CELLS = 1_000_000


def _listed(value: Any) -> Any:
    """One value stands for a list of one."""
    return value if isinstance(value, list) else [value]


def _as_text(value: Any) -> Any:
    """Numbers in YAML where text is meant, such as `min_runtime: 60`."""
    if isinstance(value, list):
        return [_as_text(one) for one in value]
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _counted(value: Any) -> Any:
    """`seeds: 5` is 0 to 4."""
    return list(range(value)) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else value


Some = Annotated[list[str], BeforeValidator(_as_text), BeforeValidator(_listed), Field(min_length=1)]

# Null is the fabric of the cluster's name.
Fabrics = Annotated[list[str | None], BeforeValidator(_listed), Field(min_length=1)]


class TraceEntry(BaseModel):
    """A trace with what is done to it first: `{trace: jobs.csv, from: 7d, to: 14d, sample: 1000}`."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    trace: str
    start: Annotated[str, BeforeValidator(_as_text), Field(alias="from")] = "0"
    end: Annotated[str | None, BeforeValidator(_as_text), Field(alias="to")] = None
    sample: Annotated[str | None, BeforeValidator(_as_text)] = None
    time_scale: Annotated[float, Field(gt=0)] = 1.0


class PlacementEntry(BaseModel):
    """A placement with the network it is for: `{placement: vclos, network: isolated}`; without, those of the sweep."""

    model_config = ConfigDict(extra="forbid")
    placement: str
    network: Some | None = None
    fabric: Fabrics | None = None


class SweepFile(BaseModel):
    """What may stand in a sweep file; lists make the grid, one value stands for a list of one."""

    model_config = ConfigDict(extra="forbid")
    name: str = ""
    traces: Annotated[list[str | TraceEntry], BeforeValidator(_listed), Field(min_length=1)]
    clusters: Some
    policies: Annotated[
        list[str | dict[str, Any]],
        BeforeValidator(_listed),
        Field(min_length=1, examples=["[fifo, tiresias-l]"]),
    ]
    placements: Annotated[list[str | PlacementEntry], BeforeValidator(_listed), Field(min_length=1)] = ["consolidated"]
    network: Some = ["ideal"]
    fabric: Fabrics = [None]
    loads: Annotated[list[Annotated[float, Field(gt=0)] | None], BeforeValidator(_listed), Field(min_length=1)] = [None]
    seeds: Annotated[
        list[Annotated[int, Field(ge=0, strict=True)]],
        BeforeValidator(_listed),
        BeforeValidator(_counted),
        Field(min_length=1, examples=["3, or seeds: [0, 1, 2]"]),
    ] = [0]
    preemption_cost: Some = ["none"]
    slowdown: Annotated[list[Literal["none", "model"]], BeforeValidator(_listed), Field(min_length=1)] = ["none"]
    min_runtime: Some = ["0"]
    skip_impossible: bool = False


def read_sweep(path: Path) -> SweepFile:
    """Read and check a sweep file."""
    return read_yaml(path, SweepFile, "sweep")


def cells(sweep: SweepFile) -> list[Cell]:
    """The grid in a fixed order, without doubles; the trace varies slowest, so that workers read each one once."""
    axes = (
        [entry if isinstance(entry, TraceEntry) else TraceEntry(trace=entry) for entry in sweep.traces],
        sweep.clusters,
        sweep.loads,
        sweep.seeds,
        _routed(sweep),
        [str(cost) for cost in sweep.preemption_cost],
        sweep.slowdown,
        sweep.min_runtime,
        list(itertools.chain.from_iterable(policy_specs(entry) for entry in sweep.policies)),
    )
    count = 1
    for axis in axes:
        count *= len(axis)
    if count > MOST_CELLS:
        raise BadInput(f"the sweep has {count:,} cells: at most {MOST_CELLS:,} are allowed")
    grid = (
        Cell(
            trace.trace, cluster, policy, placement, load, seed, cost, slowdown, runtime, trace.start, trace.end,
            trace.sample, trace.time_scale, sweep.skip_impossible, network, fabric,
        )
        for trace, cluster, load, seed, (placement, network, fabric), cost, slowdown, runtime, policy in itertools.product(*axes)
    )  # fmt: skip
    return list(dict.fromkeys(grid))


def _routed(sweep: SweepFile) -> list[tuple[str, str, str | None]]:
    """Placements with networks and fabrics: those they name themselves, or all of the sweep."""
    entries = [PlacementEntry(placement=entry) if isinstance(entry, str) else entry for entry in sweep.placements]
    return [
        (entry.placement, network, fabric)
        for entry in entries
        for network, fabric in itertools.product(entry.network or sweep.network, entry.fabric or sweep.fabric)
    ]


def policy_specs(entry: str | dict[str, Any]) -> list[str]:
    """`{policy: tiresias-l, threshold: [1600, 3200]}` is two specs, `tiresias-l?threshold=1600` and `...=3200`."""
    if isinstance(entry, str):
        return [entry]
    if not isinstance(entry.get("policy"), str):
        raise BadInput(
            f"policies: {entry} needs the key policy, such as {{policy: tiresias-l, threshold: [1600, 3200]}}"
        )
    options = {key: _listed(value) for key, value in entry.items() if key != "policy"}
    found = []
    for values in itertools.product(*options.values()):
        query = "&".join(f"{key}={_plain(value)}" for key, value in zip(options, values, strict=True))
        found.append(f"{entry['policy']}?{query}" if query else str(entry["policy"]))
    return found


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
