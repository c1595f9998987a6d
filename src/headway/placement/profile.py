"""profile: Tiresias's placement by the model's profile (section 3.4).

A model whose largest tensor is a large part of it suffers when its workers are apart: it gets as few nodes as possible. Any other
job goes where it least fragments the cluster: the fullest nodes first. The paper prints neither the formula of the skew nor PACKLIMIT:
largest tensor / model size, and any cut between 14.6 % and 61 % separates its two groups of models; ours lies between.
"""

from collections.abc import Mapping
from typing import Any

from headway.core.compiler.jit import jit
from headway.core.protocols import Placement
from headway.core.tables.actions import Actions, add_seat
from headway.core.tables.options import Options
from headway.core.tables.scratch import PLACE_SIGNATURE
from headway.io import specs
from headway.placement.consolidated import fewest_on_offer, tightest
from headway.placement.spread import on_offer

PACK_LIMIT = 0.35  # between GoogleNet's 0.146 and AlexNet's 0.61 (Tiresias, table 3)


@jit
def leftovers(nodes: Any, gpus: int, out: Actions) -> bool:
    """One node that it fills best, else the fullest nodes first."""
    if on_offer(nodes) < gpus:
        return False
    alone = tightest(nodes, gpus)
    if alone >= 0:
        add_seat(out, alone, gpus)
        return True
    need = gpus
    while need > 0:
        least = tightest(nodes, 1)
        take = min(need, nodes.offer[least])
        add_seat(out, least, take)
        nodes.offer[least] -= take
        need -= take
    return True


@jit(PLACE_SIGNATURE)
def strictly(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Actions) -> bool:
    """Skewed models on the fewest nodes possible, or not at all."""
    if job.skew > options.pack_limit:
        return fewest_on_offer(nodes, job.gpus, fewest[job.gpus], out)
    return leftovers(nodes, job.gpus, out)


@jit(PLACE_SIGNATURE)
def softly(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Actions) -> bool:
    """Skewed models on the fewest nodes that can be had now."""
    if job.skew > options.pack_limit:
        return fewest_on_offer(nodes, job.gpus, len(nodes.offer), out)
    return leftovers(nodes, job.gpus, out)


def make(options: Mapping[str, str]) -> Placement:
    """`packlimit`: the skew above which a job is kept together; `strict=no`: on the fewest nodes available now."""
    limit = specs.number(options, "packlimit") if "packlimit" in options else PACK_LIMIT
    strict = options.get("strict", "yes") == "yes"
    return Placement("profile", strictly if strict else softly, pack_limit=limit)
