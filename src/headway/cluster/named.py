"""Clusters as people name them: shorthand `15x4` (or `321x2+231x8`), a preset, or a YAML file.

Each preset names the publication that its sizes come from.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headway.cluster.nodes import Cluster, of_groups
from headway.errors import BadInput, unknown

# Groups of (nodes, GPUs of each).
PRESETS: dict[str, tuple[tuple[int, int], ...]] = {
    # Gu et al., NSDI'19, section 5: 15 machines with 4 P100 GPUs.
    "tiresias-testbed": ((15, 4),),
    # Jeon et al., ATC'19: the published machine list has 321 machines with 2 GPUs and 231 with 8 (2,490 GPUs).
    "philly": ((321, 2), (231, 8)),
    # Hu et al., SC'21, table 1: 133 nodes of 8 GPUs (by day the published node lists vary from 968 to 1,264 GPUs).
    "venus": ((133, 8),),
    # The same table: the four clusters of Helios, 133 + 143 + 262 + 264 nodes of 8 GPUs.
    "helios": ((802, 8),),
    # Weng et al., NSDI'22: pai_machine_spec lists 1,295 machines with 2 GPUs (P100, T4) and 519 with 8 (6,742 GPUs).
    "pai2020": ((1295, 2), (519, 8)),
    # Weng et al., ATC'23: openb_node_list_gpu_node lists 1,213 machines (6,212 GPUs).
    "openb": ((24, 1), (518, 2), (54, 4), (617, 8)),
    # Hu et al., NSDI'24: Kalos, 302 nodes of 8 A100 GPUs, and Seren, 286 (4,704 GPUs together).
    "kalos": ((302, 8),),
    "seren": ((286, 8),),
    # The cluster sizes of the vClos evaluation, as nodes of 8 GPUs.
    "vclos-512": ((64, 8),),
    "vclos-2048": ((256, 8),),
    "vclos-4096": ((512, 8),),
    "vclos-8192": ((1024, 8),),
}

# More nodes than any cluster we know of; a typo such as 15000000x4 must not fill the memory.
MOST_NODES = 1_000_000
# A table of every GPU, and of the speed of every size of job, is kept in memory.
MOST_GPUS = 1_000_000
MOST_DIGITS = 9
_SHORTHAND = re.compile(r"\d+x\d+(?:\+\d+x\d+)*", re.ASCII)


class NodeGroup(BaseModel):
    """Nodes of one kind in a cluster file: `{name: a, gpus: 8, count: 4}` is a0, a1, a2, a3."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, Field(min_length=1)] = "n"
    gpus: Annotated[int, Field(ge=1, strict=True)]
    count: Annotated[int, Field(ge=1, le=MOST_NODES, strict=True)] = 1


class ClusterFile(BaseModel):
    """A cluster file: a name (by default the file's) and groups of nodes."""

    model_config = ConfigDict(extra="forbid")
    name: str = ""
    nodes: Annotated[list[NodeGroup], Field(min_length=1)]


def cluster(spec: str) -> Cluster:
    """The cluster that `spec` names: shorthand, preset or YAML file."""
    if _SHORTHAND.fullmatch(spec):
        return _shorthand(spec)
    if spec in PRESETS:
        return of_groups(spec, PRESETS[spec])
    path = Path(spec)
    if path.suffix.lower() in {".yaml", ".yml"} or path.is_file():
        return _from_file(path)
    if re.match(r"-?\d", spec):
        raise BadInput(
            f"{spec!r} is not a cluster: write NODESxGPUS, such as 15x4, or 321x2+231x8 for two kinds of nodes"
        )
    close = str(unknown("cluster", spec, PRESETS)).partition(": did you mean")
    also = f"write NODESxGPUS, such as 15x4, a YAML file, or a preset: {', '.join(PRESETS)}"
    hint = f"did you mean{close[2]} Or " if close[2] else ""
    raise BadInput(f"unknown cluster {spec!r}: {hint}{also}")


def _shorthand(spec: str) -> Cluster:
    pairs = [part.split("x") for part in spec.split("+")]
    if any(len(number) > MOST_DIGITS for pair in pairs for number in pair):
        raise BadInput(f"cluster {spec[:40]!r} is too large: at most {MOST_GPUS:,} GPUs")
    groups = tuple((int(count), int(each)) for count, each in pairs)
    for count, each in groups:
        if count < 1 or each < 1:
            empty = "zero nodes" if count < 1 else "nodes with zero GPUs"
            raise BadInput(f"cluster {spec!r} has {empty}: both numbers must be at least 1")
    if sum(count for count, _ in groups) > MOST_NODES:
        raise BadInput(f"cluster {spec!r} has more than {MOST_NODES:,} nodes")
    _check_gpus(f"cluster {spec!r}", groups)
    return of_groups(spec, groups)


def _check_gpus(what: str, groups: Iterable[tuple[int, int]]) -> None:
    total = sum(count * each for count, each in groups)
    if total > MOST_GPUS:
        raise BadInput(f"{what} has {total:,} GPUs: at most {MOST_GPUS:,} are allowed")


def _from_file(path: Path) -> Cluster:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such cluster file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise BadInput(f"{path}: a cluster file is a mapping, such as nodes: [{{name: a, gpus: 8, count: 4}}]")
    try:
        parsed = ClusterFile.model_validate(content)
    except ValidationError as error:
        raise _explained(path, error) from None
    _check_gpus(f"{path}: the cluster", ((group.count, group.gpus) for group in parsed.nodes))
    names: list[str] = []
    gpus: list[int] = []
    for group in parsed.nodes:
        start = len(names) if group.name == "n" else 0
        names += (
            [group.name]
            if group.count == 1 and group.name != "n"
            else [f"{group.name}{start + i}" for i in range(group.count)]
        )
        gpus += [group.gpus] * group.count
    try:
        return Cluster(parsed.name or path.stem, tuple(names), tuple(gpus))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def _explained(path: Path, error: ValidationError) -> BadInput:
    """The first problem of a cluster file in one line, with the closest name for an unknown key."""
    first = next((one for one in error.errors() if one["type"] == "extra_forbidden"), error.errors()[0])
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    if first["type"] == "extra_forbidden":
        known = (NodeGroup if len(first["loc"]) > 1 else ClusterFile).model_fields
        return BadInput(f"{path}: {unknown('key', str(first['loc'][-1]), known)} (at {where})")
    if first["type"] == "too_short":
        return BadInput(f"{path}: {where} is empty: list at least one group, such as {{name: a, gpus: 8, count: 4}}")
    return BadInput(f"{path}: {where or 'file'}: {first['msg'].lower()}, got {first['input']!r}")
