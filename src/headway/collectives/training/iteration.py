"""One training iteration: computation, and communication overlapped with it (Themis, section 5.2 and figure 12).

Gradients become ready layer by layer in the backward pass and are sent as buckets, while the pass goes on. What is
exposed is the time beyond computation. Tensor parallelism takes the leading dimensions, pipeline parallelism the
trailing ones, data parallelism those in between; a wish that is no product of whole dimensions takes fewer. The
tensor-parallel all-reduces block, and run on other dimensions than the rest, so they are planned once and counted.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from headway.collectives.limit import bytes_per_s
from headway.collectives.schedulers import DEFAULT_CHUNKS, schedule_named
from headway.collectives.simulate.cost import PS_PER_S, CollectiveKind
from headway.collectives.simulate.graph import CollectiveRequest, Graph, chunk_choices, ways_of
from headway.collectives.topology.model import Topology
from headway.collectives.training.text_iteration import bucketed, text_run
from headway.collectives.training.textfile import TextWorkload
from headway.collectives.training.workloads import BYTES_PER_VALUE, Layer, TrainingWorkload
from headway.errors import BadInput

# What an NPU sustains: about 40 % of the 312 Tflop/s (16 bit) of the accelerators of the paper's time.
SUSTAINED_TFLOPS = 120.0
# PyTorch DDP's default bucket.
BUCKET_BYTES = 25 * 2**20
BACKWARD = 2.0
# A tensor-parallel layer all-reduces twice in the forward and twice in the backward pass (Megatron-LM).
BLOCKING_REDUCES = 4
FLOPS_PER_TFLOPS = 1e12
# Each chooses its number of chunks; then what the papers compare, with a fixed number.
COMPARED = ("baseline", "themis-fifo", "themis-scf", "best")
FIXED = ("baseline", "themis-fifo", "themis-scf")


@dataclass(frozen=True, slots=True)
class Iteration:
    """One scheduler's iteration: how long it takes and how much of that is not computation."""

    topology: str
    method: str
    time_s: float
    compute_s: float

    @property
    def exposed_s(self) -> float:
        """Communication that nothing hides (pipeline bubbles count as computation)."""
        return self.time_s - self.compute_s

    def as_json(self) -> dict[str, Any]:
        """A row of `headway collective iteration --json`."""
        return {**asdict(self), "exposed_s": self.exposed_s}


@dataclass(frozen=True, slots=True)
class Mapping:
    """Which dimensions serve which parallelism."""

    tensor: tuple[int, ...]
    data: tuple[int, ...]
    pipeline: tuple[int, ...]


def map_dimensions(topology: Topology, tensor: int, pipeline: int) -> Mapping:
    """Leading dimensions for tensor, trailing ones for pipeline parallelism, as many whole ones as the wishes hold."""
    sizes, first, last = topology.sizes, 0, len(topology.sizes)
    while first < last and math.prod(sizes[: first + 1]) <= tensor:
        first += 1
    while last > first and math.prod(sizes[last - 1 :]) <= pipeline:
        last -= 1
    dims = tuple(range(len(sizes)))
    return Mapping(dims[:first], dims[first:last], dims[last:])


@dataclass(frozen=True, slots=True)
class Settings:
    """What an iteration depends on besides model and network."""

    chunks: int = DEFAULT_CHUNKS
    tflops: float = SUSTAINED_TFLOPS
    bucket_bytes: int = BUCKET_BYTES
    in_flight: int = 1
    gradient_bytes: int = BYTES_PER_VALUE  # of one value

    def __post_init__(self) -> None:
        if not self.tflops > 0:
            raise BadInput(f"an NPU of {self.tflops:g} Tflop/s: it must be above 0")
        if min(self.chunks, self.bucket_bytes, self.in_flight, self.gradient_bytes) < 1:
            raise BadInput("chunks, bucket, chunks in flight and bytes of a gradient must each be at least 1")


def iterate(
    model: TrainingWorkload | TextWorkload, topology: Topology, settings: Settings | None = None
) -> list[Iteration]:
    """One iteration under the baseline, Themis (fifo, scf) and best, each with the number of chunks that suits it; then
    the first three with exactly `settings.chunks`, as the papers have it."""
    usual = settings or Settings()
    rows = []
    for method in COMPARED:
        tries = [
            (way, replace(usual, chunks=count)) for way in ways_of(method) for count in chunk_choices(usual.chunks)
        ]
        fastest = min(_run(model, topology, way, each, method) for way, each in tries)
        rows.append(Iteration(topology.name, method, *fastest))
    if not rows[0].time_s:
        raise BadInput(f"workload {model.name!r}: nothing is computed or sent, so there is nothing to compare")
    return rows + iterate_fixed(model, topology, usual)


def iterate_fixed(model: TrainingWorkload | TextWorkload, topology: Topology, settings: Settings) -> list[Iteration]:
    """One iteration under the baseline and Themis with exactly `settings.chunks`."""
    rows = []
    for method in FIXED:
        label = f"{method}@{settings.chunks}"
        rows.append(Iteration(topology.name, label, *_run(model, topology, method, settings, label)))
    return rows


def _run(
    model: TrainingWorkload | TextWorkload, topology: Topology, way: str, settings: Settings, method: str
) -> tuple[float, float]:
    """Time and computation of one iteration, in s."""
    if isinstance(model, TextWorkload):

        def graph_of(part: Topology) -> Graph:
            return Graph(part, way, settings.chunks, settings.in_flight)

        return text_run(bucketed(model, settings.bucket_bytes), topology, graph_of, method), model.compute_s
    mapping = map_dimensions(topology, model.tensor, model.pipeline)
    tensor = math.prod(topology.sizes[dim] for dim in mapping.tensor)
    stages = math.prod(topology.sizes[dim] for dim in mapping.pipeline)
    # The layers of the first pipeline stage, the last to finish its backward pass.
    part = model.layers[: math.ceil(len(model.layers) / stages)]
    speed = settings.tflops * FLOPS_PER_TFLOPS * tensor
    forward_s = [layer.forward_flop * model.samples / speed for layer in part]
    blocked_s = _blocking_s(model, topology, mapping, method, settings)
    one_pass_s = (1 + BACKWARD) * sum(forward_s)
    waits_s = sum(BLOCKING_REDUCES * blocked_s for layer in part if layer.tensor_bytes)
    before_s, before_wait_s = _pipeline_s(model, topology, mapping, stages, one_pass_s, waits_s)
    compute_s = before_s + one_pass_s
    if not mapping.data:
        return compute_s + before_wait_s + waits_s, compute_s
    graph = Graph(topology.part(mapping.data), way, settings.chunks, settings.in_flight)
    passes = _Passes(graph, model, part, forward_s, blocked_s, tensor, settings)
    return passes.run(before_s + before_wait_s), compute_s


def _blocking_s(
    model: TrainingWorkload, topology: Topology, mapping: Mapping, method: str, settings: Settings
) -> float:
    """How long one tensor-parallel all-reduce takes under this scheduler."""
    size = max(layer.tensor_bytes for layer in model.layers) * model.samples
    if not mapping.tensor or not size:
        return 0.0
    part, kind = topology.part(mapping.tensor), CollectiveKind.ALL_REDUCE
    return schedule_named(method, part, size, kind, None, settings.in_flight).time_s


def _pipeline_s(
    model: TrainingWorkload, topology: Topology, mapping: Mapping, stages: int, one_pass_s: float, waits_s: float
) -> tuple[float, float]:
    """Computation and waiting before the last microbatch of the first stage (1F1B): the others, and the bubble."""
    others = model.microbatches - 1 + (stages - 1)
    if not mapping.pipeline:
        return others * one_pass_s, others * waits_s
    inner = mapping.pipeline[0]
    hop_s = model.activation_bytes * model.samples / float(bytes_per_s(topology)[inner])
    return others * one_pass_s, others * waits_s + 2 * (stages - 1) * hop_s


@dataclass(slots=True)
class _Passes:
    """Forward and backward pass of the last microbatch, with its collectives."""

    graph: Graph
    model: TrainingWorkload
    layers: Sequence[Layer]
    forward_s: Sequence[float]
    blocked_s: float
    tensor: int
    settings: Settings

    def run(self, before_s: float) -> float:
        """The end of everything, in s."""
        start = self.graph.compute(before_s, ())
        last = self._forward(start)
        sent, sizes = self._backward(last)
        if self.model.zero in (1, 2):
            # The step needs the norm of all gradients, so parameters are gathered after the last reduce-scatter.
            step = self.graph.compute(0.0, sent)
            for size in sizes:
                self.graph.collective(CollectiveRequest(CollectiveKind.ALL_GATHER, size), (step,))
        return int(self.graph.run().max()) / PS_PER_S

    def _forward(self, start: int) -> int:
        last, gathered = start, self._gathers(range(len(self.layers)), start)
        for number, layer in enumerate(self.layers):
            after = [last, *gathered[number]]
            if layer.exchange_bytes:
                after += self.graph.collective(
                    CollectiveRequest(CollectiveKind.ALL_TO_ALL, layer.exchange_bytes), (start,)
                ).tolist()
            last = self.graph.compute(self.forward_s[number] + self._blocked(layer), after)
        return last

    def _backward(self, last: int) -> tuple[list[int], list[int]]:
        """Returns the operations that end its collectives, and the sizes of the buckets."""
        kind = CollectiveKind.REDUCE_SCATTER if self.model.zero else CollectiveKind.ALL_REDUCE
        order = range(len(self.layers) - 1, -1, -1)
        gathered = self._gathers(order, last)
        waiting, ends, sizes = 0, list[int](), list[int]()
        for number in order:
            layer = self.layers[number]
            span_s = BACKWARD * self.forward_s[number] + self._blocked(layer)
            last = self.graph.compute(span_s, [last, *gathered[number]])
            waiting += self._bytes(layer)
            if layer.exchange_bytes:
                ends += self.graph.collective(
                    CollectiveRequest(CollectiveKind.ALL_TO_ALL, layer.exchange_bytes), (last,)
                ).tolist()
            if waiting and (waiting >= self.settings.bucket_bytes or number == 0):
                ends += self.graph.collective(CollectiveRequest(kind, waiting), (last,)).tolist()
                sizes.append(waiting)
                waiting = 0
        return ends, sizes

    def _gathers(self, order: range, after: int) -> dict[int, list[int]]:
        """ZeRO-3: every layer's parameters are prefetched in the sequence of use, ahead of gradients."""
        gathered: dict[int, list[int]] = {number: [] for number in order}
        if self.model.zero == 3:
            for number in order:
                request = CollectiveRequest(CollectiveKind.ALL_GATHER, self._bytes(self.layers[number]), priority=1)
                gathered[number] = self.graph.collective(request, (after,)).tolist()
        return gathered

    def _bytes(self, layer: Layer) -> int:
        return layer.params * self.settings.gradient_bytes // self.tensor

    def _blocked(self, layer: Layer) -> float:
        return BLOCKING_REDUCES / 2 * self.blocked_s if layer.tensor_bytes else 0.0
