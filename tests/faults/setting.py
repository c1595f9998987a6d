"""What a round of the twin is about: the policy, the nodes, whose jobs they are and what these ask for, and how long things take."""

import random
from dataclasses import dataclass, replace
from typing import Any

from headway.cluster.named import cluster
from headway.cluster.nodes import Cluster
from headway.live.jobfile.spec import JobSpec

POLICIES = ("fifo", "backfill", "tiresias-l?threshold=20", "las?quantum=10", "gittins?quantum=10")
ALIKE = cluster("2x2")
DIFFERENT = replace(ALIKE, types=("a100", "v100"), features=(("ib",), ("ib", "roce")))
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"type": "A100"},
    {"type": "v100"},
    {"constraints": ["ib"]},
    {"constraints": ["roce"]},
    {"constraints": ["a100|roce", "ib"]},
    {"type": "v100", "constraints": ["ib"]},
    {"constraints": ["nvlink"]},  # which no node has
)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is drawn once for a round."""

    policy: str
    chance: (
        random.Random
    )  # for what rounds did not draw at first: without it, a seed tells the same story as it did then
    cluster: Cluster = ALIKE
    kinds: tuple[dict[str, Any], ...] = ({},)  # what jobs may ask of their nodes
    users: tuple[str, ...] = ("me",)
    options: float = 0.0  # how often a verb is asked for with its option
    honest: float = 0.0  # how often a process says how much is left of it
    scale: float = 1.0  # of run times, and of the times between acts

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.cluster.total

    def suits(self, node: str, spec: JobSpec) -> bool:
        """Whether a node has what a job asks for."""
        if not self.cluster.types:
            return not spec.constraints and not spec.resources.type
        at = self.cluster.nodes.index(node)
        words = {self.cluster.types[at], *self.cluster.features[at]}
        asked = [*spec.constraints, *([spec.resources.type.lower()] if spec.resources.type else [])]
        return all(words & set(each.split("|")) for each in asked)


def drawn(seed: int, policy: str) -> Setting:
    """The setting of a seed; `policy` unless it is the default policy's turn, whose times are those of long jobs."""
    chance = random.Random(-1 - seed)
    found = Setting(policy, chance, options=0.3)
    if chance.random() < 0.4:
        found = replace(found, policy="headway", scale=100.0, honest=chance.choice([0.0, 0.7]))
    if chance.random() < 0.5:
        found = replace(found, cluster=DIFFERENT, kinds=KINDS, users=("me", "ada", "bob"))
    return found
