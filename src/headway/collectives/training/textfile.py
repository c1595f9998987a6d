"""Workloads in the text format of ASTRA-sim 1.0: layers with compute times and what they communicate.

The first line names the parallelism, the second the number of layers, then one line per layer with twelve fields:

    name  -1  forward ns, kind, bytes  input-gradient ns, kind, bytes  weight-gradient ns, kind, bytes  update

The times are cycles at 1 GHz; kinds are NONE, ALLREDUCE, ALLGATHER, ALLTOALL, REDUCESCATTER; the last field is a delay per
kilobyte after a collective, which we read and leave out. The format says nothing of precision: bytes are as given.
"""

from dataclasses import dataclass
from pathlib import PurePath

from headway.collectives.simulate.cost import MOST_BYTES, CollectiveKind
from headway.errors import BadInput, unknown
from headway.io.json_file import shown

KINDS = {
    "NONE": None,
    "ALLREDUCE": CollectiveKind.ALL_REDUCE,
    "ALLGATHER": CollectiveKind.ALL_GATHER,
    "ALLTOALL": CollectiveKind.ALL_TO_ALL,
    "REDUCESCATTER": CollectiveKind.REDUCE_SCATTER,
}
PARALLELISMS = ("DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_TRANSFORMER", "HYBRID_DLRM")
FIELDS = 12
NS_PER_S = 1e9
MOST_LAYERS = 100_000
# A day of computation in one layer is a mistake in the file.
LONGEST_NS = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class Sent:
    """What is communicated after a part of a layer, if anything."""

    kind: CollectiveKind | None
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TimedLayer:
    """One layer: the seconds of its three parts, and what each of them communicates."""

    name: str
    forward_s: float
    forward: Sent
    input_s: float
    input: Sent
    weight_s: float
    weight: Sent


@dataclass(frozen=True, slots=True)
class TextWorkload:
    """A workload from a file. `group` is the number of NPUs that a model is spread over (HYBRID_TRANSFORMER), or the last
    layer of the bottom part (HYBRID_DLRM)."""

    name: str
    parallelism: str
    group: int
    layers: tuple[TimedLayer, ...]

    @property
    def compute_s(self) -> float:
        """All computation of one iteration; DATA and HYBRID_DLRM do not compute the gradient of the first layer's input."""
        first = self.layers[0].input_s if self.parallelism in ("DATA", "HYBRID_DLRM") else 0.0
        return sum(layer.forward_s + layer.input_s + layer.weight_s for layer in self.layers) - first

    @property
    def gradient_bytes(self) -> int:
        """What one iteration communicates after weight gradients."""
        return sum(layer.weight.size_bytes for layer in self.layers if layer.weight.kind)


def workload_from_text(text: str, where: str) -> TextWorkload:
    """The workload that a file holds; `where` names the file in errors, which name the line and the field."""
    path, lines = where, text.splitlines()
    rows = [(number, line.split()) for number, line in enumerate(lines, 1) if line.split()]
    if len(rows) < 3:
        raise BadInput(f"{path}: a workload has a parallelism, a number of layers and layers: it has {len(rows)} lines")
    parallelism, group = _head(path, rows[0][1])
    count = _whole(path, rows[1][0], "number of layers", rows[1][1][0], MOST_LAYERS)
    if count != len(rows) - 2:
        raise BadInput(f"{path}:{rows[1][0]}: it names {count} layers, and {len(rows) - 2} follow")
    layers = tuple(_layer(path, number, fields) for number, fields in rows[2:])
    if parallelism == "HYBRID_DLRM" and not group < len(layers):
        raise BadInput(
            f"{path}:1: the last bottom layer is {group}, and there are {len(layers)} layers, counted from 0"
        )
    return TextWorkload(PurePath(where).stem, parallelism, group, layers)


def _head(path: str, fields: list[str]) -> tuple[str, int]:
    if fields[0] not in PARALLELISMS:
        raise BadInput(f"{path}:1: {unknown('parallelism', shown(fields[0]), PARALLELISMS)}")
    if fields[0] not in ("HYBRID_TRANSFORMER", "HYBRID_DLRM"):
        return fields[0], 1
    what = "NPUs of a model" if fields[0] == "HYBRID_TRANSFORMER" else "last bottom layer"
    return fields[0], _whole(path, 1, what, fields[-1] if len(fields) > 1 else "", MOST_LAYERS)


def _layer(path: str, line: int, fields: list[str]) -> TimedLayer:
    if len(fields) != FIELDS:
        raise BadInput(f"{path}:{line}: a layer has {FIELDS} fields, and this has {len(fields)}")
    parts: list[tuple[float, Sent]] = []
    for label, at in (("forward", 2), ("input gradient", 5), ("weight gradient", 8)):
        span = _whole(path, line, f"{label} time", fields[at], LONGEST_NS) / NS_PER_S
        if fields[at + 1] not in KINDS:
            raise BadInput(f"{path}:{line}: {label}: {unknown('kind', shown(fields[at + 1]), KINDS)}")
        size = _whole(path, line, f"{label} bytes", fields[at + 2], MOST_BYTES)
        parts.append((span, Sent(KINDS[fields[at + 1]] if size else None, size)))
    return TimedLayer(fields[0], *parts[0], *parts[1], *parts[2])


def _whole(path: str, line: int, what: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) <= most):
        raise BadInput(f"{path}:{line}: {what} '{shown(text)}': it must be a whole number from 0 to {most}")
    return int(text)
