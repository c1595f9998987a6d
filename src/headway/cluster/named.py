"""Clusters by name: shorthand `15x4` (or `321x2+231x8`), a preset, or a YAML file.

Each preset names the publication that its sizes come from.
"""

import re
from pathlib import Path

from headway.cluster.nodes import MOST_GPUS, Cluster, check_size, of_groups
from headway.errors import BadInput, closest

# Groups of (nodes, GPUs per node).
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
    # Zhang et al. (Rubick): 8 servers of 8 A800 GPUs.
    "rubick-64": ((8, 8),),
    # The cluster sizes of the vClos evaluation, as nodes of 8 GPUs.
    "vclos-512": ((64, 8),),
    "vclos-2048": ((256, 8),),
    "vclos-4096": ((512, 8),),
    "vclos-8192": ((1024, 8),),
}

# Longer numbers are not even multiplied.
MOST_DIGITS = 9
_SHORTHAND = re.compile(r"\d+x\d+(?:\+\d+x\d+)*", re.ASCII)


def cluster(spec: str) -> Cluster:
    """The cluster that `spec` names: shorthand, preset or YAML file."""
    if _SHORTHAND.fullmatch(spec):
        return _shorthand(spec)
    if spec in PRESETS:
        return of_groups(spec, PRESETS[spec])
    path = Path(spec)
    if path.suffix.lower() in {".yaml", ".yml"} or path.is_file():
        from headway.cluster.file import cluster_from

        return cluster_from(path)
    if re.match(r"-?\d", spec):
        raise BadInput(
            f"{spec!r} is not a cluster: write NODESxGPUS, such as 15x4, or 321x2+231x8 for two kinds of nodes"
        )
    close = closest(spec, sorted(PRESETS))
    also = f"write NODESxGPUS, such as 15x4, a YAML file, or a preset: {', '.join(PRESETS)}"
    hint = f"did you mean {close!r}? Or " if close else ""
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
    check_size(f"cluster {spec!r}", groups)
    return of_groups(spec, groups)
