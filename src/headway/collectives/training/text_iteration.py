"""One iteration of a workload file, loop by loop as in ASTRA-sim 1.0 (`Workload.cc`).

Forward, layer by layer; then back from the last layer. The gradients of weights are sent while the pass goes on. The parallelism decides
what else is sent, and what waits:

| | forward | back, layer by layer | input of the first layer |
|---|---|---|---|
| DATA | nothing is sent | weights, then input, which is not sent | not computed |
| HYBRID_TRANSFORMER | blocks | input, which blocks, then weights | as of others |
| MODEL, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA | blocks | input; weights while it is sent; the next waits | not sent |
| HYBRID_DLRM | only embeddings, behind the bottom | weights, then input; embeddings behind the bottom | not computed |

MODEL sends no gradients of weights. DLRM's exchanges pass everything else in the queues. The iteration ends when everything has
arrived.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headway.collectives.schedulers import schedule_named
from headway.collectives.simulate.cost import PS_PER_S, CollectiveKind
from headway.collectives.simulate.graph import CollectiveRequest, Graph
from headway.collectives.topology.model import Topology
from headway.collectives.training.textfile import Sent, TextWorkload
from headway.errors import BadInput

NOTHING = Sent(None, 0)
URGENT = 1


def text_run(workload: TextWorkload, topology: Topology, graph_of: Callable[[Topology], Graph], method: str) -> float:
    """How long one iteration takes, in s; `graph_of` makes an empty graph for the dimensions that carry gradients."""
    blocking, sending = dims_of(workload, topology)
    part = topology.part(blocking) if blocking else None
    known: dict[Sent, float] = {}

    def blocked_s(sent: Sent) -> float:
        if sent.kind is None or part is None:
            return 0.0
        if sent not in known:
            in_flight = graph.in_flight
            known[sent] = schedule_named(method, part, sent.size_bytes, sent.kind, None, in_flight).time_s
        return known[sent]

    graph = graph_of(topology.part(sending) if sending else topology)
    passes = _TextPasses(workload, graph, blocked_s, bool(sending))
    if workload.parallelism == "HYBRID_DLRM":
        passes.recommendation()
    elif workload.parallelism == "DATA":
        passes.data_parallel()
    else:
        passes.model_parallel()
    return int(graph.run().max()) / PS_PER_S


def dims_of(workload: TextWorkload, topology: Topology) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which dimensions carry what blocks (forward, inputs), and which the gradients of weights."""
    dims = tuple(range(len(topology.dimensions)))
    if workload.parallelism in ("HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA"):
        return (dims[:1], dims[1:]) if workload.parallelism == "HYBRID_DATA_MODEL" else (dims[1:], dims[:1])
    if workload.parallelism == "MODEL":
        return dims, ()
    if workload.parallelism != "HYBRID_TRANSFORMER":
        return dims, dims
    for split in range(len(dims) + 1):
        if math.prod(topology.sizes[:split]) == workload.group:
            return dims[:split], dims[split:]
    raise BadInput(
        f"workload {workload.name!r} spreads a model over {workload.group} NPUs, and no leading dimensions of "
        f"{topology.name!r} ({'x'.join(map(str, topology.sizes))}) have that many"
    )


@dataclass(slots=True)
class _TextPasses:
    """Builds the operations of one iteration."""

    workload: TextWorkload
    graph: Graph
    blocked_s: Callable[[Sent], float]
    sends: bool
    _last: list[int] = field(default_factory=list)  # what the next computation waits for

    def _compute(self, seconds: float) -> None:
        self._last = [self.graph.compute(seconds, self._last)]

    def _issue(self, sent: Sent, priority: int = 0) -> list[int]:
        """Send, and go on."""
        if sent.kind is None or not self.sends:
            return []
        request = CollectiveRequest(sent.kind, sent.size_bytes, priority=priority)
        return [int(op) for op in self.graph.collective(request, self._last)]

    def data_parallel(self) -> None:
        for layer in self.workload.layers:
            self._compute(layer.forward_s)
        for number, layer in reversed(list(enumerate(self.workload.layers))):
            self._compute(layer.weight_s)
            self._issue(layer.weight)
            self._compute(layer.input_s if number else 0.0)

    def model_parallel(self) -> None:
        """Also the hybrids but for DLRM."""
        waits = self.workload.parallelism == "HYBRID_TRANSFORMER"
        for layer in self.workload.layers:
            self._compute(layer.forward_s + self.blocked_s(layer.forward))
        for number, layer in reversed(list(enumerate(self.workload.layers))):
            sent_s = self.blocked_s(layer.input) if number or waits else 0.0
            self._compute(layer.input_s + (sent_s if waits else 0.0))
            self._compute(layer.weight_s)
            self._issue(layer.weight)
            # What is sent for inputs has its dimensions to itself: only what the weights do not hide is waited for.
            self._compute(0.0 if waits else max(0.0, sent_s - layer.weight_s))

    def recommendation(self) -> None:
        layers, bottom = self.workload.layers, self.workload.group
        self._compute(layers[0].forward_s)
        exchanged = self._issue(layers[0].forward, URGENT)
        for number, layer in enumerate(layers[1:], 1):
            self._last += exchanged if number == bottom + 1 else []
            self._compute(layer.forward_s)
        exchanged = []
        for number in range(len(layers) - 1, 0, -1):
            self._compute(layers[number].weight_s)
            self._issue(layers[number].weight)
            self._compute(layers[number].input_s)
            exchanged = self._issue(layers[0].input, URGENT) if number == bottom + 1 else exchanged
        self._compute(layers[0].weight_s)
        self._issue(layers[0].weight)
        self._last += exchanged
        self._compute(0.0)


def bucketed(workload: TextWorkload, bucket_bytes: int) -> TextWorkload:
    """The same with gradients sent in buckets of at least so many bytes, after the last layer of each."""
    waiting, layers = 0, list(workload.layers)
    for number in range(len(layers) - 1, -1, -1):
        sent = layers[number].weight
        if sent.kind not in (None, CollectiveKind.ALL_REDUCE):
            continue
        waiting += sent.size_bytes
        full = waiting >= bucket_bytes or number == 0
        layers[number] = replace(
            layers[number], weight=Sent(CollectiveKind.ALL_REDUCE, waiting) if full and waiting else NOTHING
        )
        waiting = 0 if full else waiting
    return replace(workload, layers=tuple(layers))
