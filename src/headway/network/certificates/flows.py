"""The verifier's model of the network: from a certificate's plain data to the links of every flow, step by step.

Deliberately apart: it shares no code with the allocator, the routing kernels or the traffic generator. It reads the
certificate's words (rank order, routing rule, circuits) and works out again what every pattern would put on every
link.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Fault(Exception):
    """A certificate that cannot be followed: says where it breaks."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The fullest link of a pattern: how many flows, in which step, and its ends in the direction of the flow."""

    flows: int
    step: str
    link: str


def pattern_steps(name: str, ranks: int) -> Iterator[tuple[str, Ints, Ints]]:
    """Every step of a pattern: a label, senders, receivers. Raises Fault where the pattern does not exist."""
    me = np.arange(ranks)
    kind, _, parameter = name.partition(":")
    group = int(parameter) if parameter.isdigit() else 0
    if kind in ("hierarchical-ring", "hybrid") and (group < 1 or ranks % group):
        raise Fault(f"pattern {name!r} needs a group that divides {ranks} ranks")
    if kind == "ring":
        yield "ring", me, np.roll(me, -1)
    elif kind == "all-to-all":
        for distance in range(1, ranks):
            yield f"shift {distance}", me, (me + distance) % ranks
    elif kind == "halving-doubling":
        if ranks & (ranks - 1):
            raise Fault(f"halving-doubling does not exist for {ranks} ranks")
        for bit in range(ranks.bit_length() - 1):
            yield f"exchange {1 << bit}", me, me ^ 1 << bit
    elif kind == "pipeline":
        yield "forward", me[:-1], me[1:]
        yield "backward", me[1:], me[:-1]
    elif kind in ("hierarchical-ring", "hybrid"):
        for distance in [1] if kind == "hierarchical-ring" else range(1, group):
            yield f"block shift {distance}", me, me // group * group + (me % group + distance) % group
        yield f"stride {group}", me, (me + group) % ranks
    else:
        raise Fault(f"pattern {name!r} is not known")


class Model:
    """A certificate's fabric and routing rule as look-up tables."""

    def __init__(self, content: dict[str, Any]) -> None:
        """Tables from the checked fields of a certificate."""
        fabric, self.routing = content["fabric"], content["routing"]
        self.kind: str = fabric["kind"]
        self.per_server: int = fabric["gpus_per_server"]
        on_leaf = fabric["servers_on_leaf"]
        self.groups = len(on_leaf)
        self.leaves = self.groups * self.per_server if self.kind == "rail" else self.groups
        self.ocs = fabric.get("ocs")
        self.lanes: int = fabric["parallel_links"]
        self.uplinks: int = self.ocs["switches"] if self.ocs else fabric["spines"] * self.lanes
        self.group_of_server = np.repeat(np.arange(self.groups), on_leaf)
        self.gpus = self.group_of_server.size * self.per_server
        self.pod_of_leaf = np.asarray(fabric.get("leaf_pod") or [0] * self.leaves, np.int64)
        self.cores: int = fabric.get("cores_per_group") or 0
        self.order = np.asarray(content["rank_order"], np.int64)
        self.circuits: list[dict[str, int]] = content["circuits"]

    def follow(self) -> None:
        """Work out every rank's place and every leaf's links; Fault where the rule does not say enough."""
        self.server = self.order // self.per_server
        self.group = self.leaf = self.group_of_server[self.server]
        self.index = np.arange(self.order.size)
        if self.kind == "rail":
            self.leaf = self.group * self.per_server + self.order % self.per_server
            first: dict[int, int] = {}
            self.index = np.array([first.setdefault(int(one), len(first)) for one in self.server], np.int64)
        by_leaf = np.argsort(self.leaf, kind="stable")
        self.member = np.empty_like(by_leaf)  # the position of every rank on its leaf
        self.member[by_leaf] = np.arange(by_leaf.size) - np.searchsorted(self.leaf[by_leaf], self.leaf[by_leaf])
        self.ports = self._ports()
        self.far = self._far_ends()

    def _ports(self) -> Ints:
        """ports[leaf, i]: the uplink that link index i is on that leaf; -1 where there is none."""
        spines = self.routing.get("spines") or []
        fibres = self.routing.get("fibres") or {str(leaf): spines for leaf in range(self.leaves)}
        ports = np.full((self.leaves, max(1, *map(len, fibres.values()))), -1, np.int64)
        for leaf, held in fibres.items():
            if not leaf.isdigit() or int(leaf) >= self.leaves:
                raise Fault(f"routing.fibres names leaf {leaf!r}, which does not exist")
            ports[int(leaf), : len(held)] = held
        if ports.max(initial=-1) >= self.uplinks:
            raise Fault(f"routing uses uplink {ports.max()}, but a leaf has {self.uplinks}")
        return ports

    def _far_ends(self) -> Ints:
        """far[leaf, ocs]: the spine (>= 0) or leaf (-2 - leaf) its circuit ends on; -1 where there is none."""
        far = np.full((self.leaves, self.uplinks), -1, np.int64)
        for one in self.circuits:
            if "other_leaf" in one:
                far[one["leaf"], one["ocs"]] = -2 - one["other_leaf"]
                far[one["other_leaf"], one["ocs"]] = -2 - one["leaf"]
            else:
                far[one["leaf"], one["ocs"]] = one["spine"]
        return far

    def links_of(self, senders: Ints, receivers: Ints) -> Ints:
        """The directed links of every flow that crosses leaves: one row per flow, -1 where the path is shorter."""
        here, there = self.leaf[senders], self.leaf[receivers]
        if self.kind == "rail":
            same_rail = self.group[senders] * self.per_server + self.order[receivers] % self.per_server
            here = np.where(self.server[senders] == self.server[receivers], there, same_rail)
        crosses = here != there
        senders, receivers, here, there = senders[crosses], receivers[crosses], here[crosses], there[crosses]
        if not senders.size:
            return np.empty((0, 4), np.int64)
        up, down = self._indices(senders, receivers, here, there)
        up_port, down_port = self._port(here, up), self._port(there, down)
        self._check_circuits(here, up_port, there, down_port)
        out = np.full((senders.size, 4), -1, np.int64)
        out[:, 0] = 2 * (here * self.uplinks + up_port)
        out[:, 3] = 2 * (there * self.uplinks + down_port) + 1
        far = self.pod_of_leaf[here] != self.pod_of_leaf[there]
        if far.any():
            out[far, 1:3] = self._core_links(senders[far], here[far], there[far], up[far], up_port[far])
        return out

    def _indices(self, senders: Ints, receivers: Ints, here: Ints, there: Ints) -> tuple[Ints, Ints]:
        """The link index on the way up and on the way down, by the certificate's rule."""
        rule = self.routing["rule"]
        if rule == "rank-mod":
            index = self.index[senders] % self.routing["modulus"]
            return index, index
        if rule == "by-member":
            return self.member[senders], self.member[receivers]
        if rule == "by-class":
            classes = self.routing["modulus"]
            held = (self.ports >= 0).sum(axis=1) // classes  # links of one class, by leaf
            of_sender = senders % classes
            up = of_sender * held[here] + self.member[senders] // classes
            return up, of_sender * held[there] + self.member[receivers] // classes
        if rule == "direct":
            index = np.where(here == self.routing["near"], self.member[senders], self.member[receivers])
            return index, index
        raise Fault(f"ranks {senders[0]} and {receivers[0]} are on different leaves, but routing is {rule!r}")

    def _port(self, leaf: Ints, index: Ints) -> Ints:
        missing = index >= self.ports.shape[1]
        port = self.ports[leaf, np.where(missing, 0, index)]
        missing |= port < 0
        if missing.any():
            at = int(np.argmax(missing))
            raise Fault(f"routing gives {self.leaf_name(int(leaf[at]))} no link number {int(index[at])}")
        return np.asarray(port, np.int64)

    def _check_circuits(self, here: Ints, up: Ints, there: Ints, down: Ints) -> None:
        """Through optical switches both fibres must end on the same spine, or on each other."""
        if not self.ocs:
            return
        one, other = self.far[here, up], self.far[there, down]
        spine = (one >= 0) & (one == other)
        joined = (one == -2 - there) & (other == -2 - here) & (up == down)
        wrong = ~(spine | joined)
        if wrong.any():
            at = int(np.argmax(wrong))
            ends = [f"{self.leaf_name(leaf[at])} fibre {fibre[at]}" for leaf, fibre in ((here, up), (there, down))]
            raise Fault(f"no circuit leads from {' to '.join(ends)}")

    def _core_links(self, senders: Ints, here: Ints, there: Ints, index: Ints, port: Ints) -> Ints:
        """Up to a core and down again, for flows between pods."""
        if not self.routing.get("cores"):
            raise Fault("flows cross pods, but routing names no cores")
        cores, turn = (
            self.routing["cores"],
            self.index[senders] // self.routing["modulus"] % self.routing["core_modulus"],
        )
        try:
            core = np.array([cores[i][t] for i, t in zip(index, turn, strict=True)], np.int64)
        except IndexError:
            raise Fault("routing.cores has fewer cores than core_modulus") from None
        if core.max(initial=0) >= self.cores:
            raise Fault(f"routing uses core {core.max()}, but a group has {self.cores}")
        pods = self.pod_of_leaf[np.stack([here, there])]
        up, down = self.leaves * self.uplinks + (pods * self.uplinks + port) * self.cores + core
        return np.stack([2 * up, 2 * down + 1], axis=1)

    def worst(self, pattern: str) -> tuple[Worst, set[int]]:
        """The fullest link over all steps of a pattern, and every cable it uses."""
        worst, used = Worst(0, "", ""), set()
        for label, senders, receivers in pattern_steps(pattern, self.order.size):
            links = self.links_of(senders, receivers)
            links = links[links >= 0]
            if not links.size:
                continue
            found, counts = np.unique(links, return_counts=True)
            used.update((found // 2).tolist())
            if counts.max() > worst.flows:
                cable, down = divmod(int(found[counts.argmax()]), 2)
                ends = self.cable_name(cable)
                worst = Worst(int(counts.max()), label, " -> ".join(reversed(ends) if down else ends))
        return worst, used

    def leaf_name(self, leaf: int) -> str:
        """As certificates name leaves."""
        if self.kind == "rail":
            return f"leaf{leaf // self.per_server}.r{leaf % self.per_server}"
        return f"leaf{leaf}"

    def cable_name(self, cable: int) -> tuple[str, str]:
        """As certificates name cables."""
        leaf, uplink = divmod(cable, self.uplinks)
        if leaf >= self.leaves:
            switch, core = divmod(cable - self.leaves * self.uplinks, self.cores)
            return f"agg{switch // self.uplinks}.{switch % self.uplinks}", f"core{switch % self.uplinks}.{core}"
        lane = f".{uplink % self.lanes}" if self.lanes > 1 else ""
        upper = f"spine{uplink // self.lanes}{lane}"
        if self.ocs:
            upper = f"ocs{uplink}"
        elif self.kind == "three-tier":
            upper = f"agg{self.pod_of_leaf[leaf]}.{uplink // self.lanes}{lane}"
        return self.leaf_name(leaf), upper

    def all_cables(self) -> dict[tuple[str, str], int]:
        """Every cable of the fabric by name."""
        pods = int(self.pod_of_leaf.max(initial=0)) + 1
        total = self.leaves * self.uplinks + (pods * self.uplinks * self.cores if self.kind == "three-tier" else 0)
        return {self.cable_name(cable): cable for cable in range(total)}
