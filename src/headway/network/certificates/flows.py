"""The verifier's model of the network: from a certificate's plain data to the links of every flow, step by step.

Deliberately apart: it shares no code with the allocator, the routing kernels or the traffic generator. It reads the
certificate's words (rank order, routing rule, circuits) and works out again what every pattern would put on every
link. On rails a flow leaves its server by the NIC of the receiver's rail, so the NICs are links there too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]


class Fault(Exception):
    """A certificate that cannot be followed: says where it breaks."""


class Undefined(Fault):
    """The pattern does not exist for this number of ranks."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The fullest link of a pattern: how many flows, in which step, and its ends in the direction of the flow."""

    flows: int
    step: str
    link: str


def pattern_steps(name: str, ranks: int) -> Iterator[tuple[str, Ints, Ints]]:
    """Every step of a pattern: a label, senders, receivers. Raises Undefined where the pattern does not exist."""
    me = np.arange(ranks)
    kind, _, parameter = name.partition(":")
    if bool(parameter) != (kind in ("hierarchical-ring", "hybrid")):
        raise Undefined(f"pattern {name!r} is not known")
    group = int(parameter or 1)
    if ranks % group:
        raise Undefined(f"pattern {name!r} needs a group that divides {ranks} ranks")
    if kind == "ring":
        yield "ring", me, np.roll(me, -1)
    elif kind == "all-to-all":
        for distance in range(1, ranks):
            yield f"shift {distance}", me, (me + distance) % ranks
    elif kind == "halving-doubling":
        if ranks & (ranks - 1):
            raise Undefined(f"halving-doubling does not exist for {ranks} ranks")
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
        raise Undefined(f"pattern {name!r} is not known")


def refuse_undefined(name: str, ranks: int) -> None:
    """Raise Undefined if a pattern does not exist for `ranks` ranks, without following it."""
    next(pattern_steps(name, ranks), None)


class FlowModel:
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
        self.pods = int(self.pod_of_leaf.max(initial=0)) + 1
        self.cables = self.leaves * self.uplinks + self.pods * self.uplinks * self.cores
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
        if self.routing["rule"] == "direct":
            joined = set(self.leaf.tolist())
            if len(joined) != 2 or self.routing["near"] not in joined:
                raise Fault("routing is 'direct', which joins two leaves of the job, one of them near")

    def _ports(self) -> Ints:
        """ports[leaf, i]: the uplink that link index i is on that leaf; -1 where there is none."""
        spines = self.routing.get("spines", [])
        fibres = {int(leaf): held for leaf, held in self.routing.get("fibres", {}).items()}
        ports = np.full((self.leaves, max([1, len(spines), *map(len, fibres.values())])), -1, np.int64)
        ports[:, : len(spines)] = spines
        for leaf, held in fibres.items():
            if leaf >= self.leaves:
                raise Fault(f"routing.fibres names leaf {leaf}, which does not exist")
            ports[leaf, : len(held)] = held
        if ports.max() >= self.uplinks:
            raise Fault(f"routing uses uplink {ports.max()}, but a leaf has {self.uplinks}")
        return ports

    def _far_ends(self) -> Ints:
        """far[leaf, ocs]: the spine (>= 0) or leaf (-2 - leaf) its circuit ends on; -1 where there is none."""
        far = np.full((self.leaves, self.uplinks) if self.ocs else (0, 0), -1, np.int64)
        for one in self.circuits:
            if "other_leaf" in one:
                far[one["leaf"], one["ocs"]] = -2 - one["other_leaf"]
                far[one["other_leaf"], one["ocs"]] = -2 - one["leaf"]
            else:
                far[one["leaf"], one["ocs"]] = one["spine"]
        return far

    def links_of(self, senders: Ints, receivers: Ints) -> Ints:
        """The directed links that the flows of one step use, with every use."""
        nics = np.empty(0, np.int64)
        here, there = self.leaf[senders], self.leaf[receivers]
        if self.kind == "rail":
            leaves_server = self.server[senders] != self.server[receivers]
            rail = self.order[receivers] % self.per_server
            nics = 2 * (self.cables + self.server[senders] * self.per_server + rail)[leaves_server]
            here = np.where(leaves_server, self.group[senders] * self.per_server + rail, there)
        crosses = here != there
        senders, receivers, here, there = senders[crosses], receivers[crosses], here[crosses], there[crosses]
        if not senders.size:
            return nics
        up, down = self._indices(senders, receivers, here, there)
        up_port, down_port = self._port(here, up), self._port(there, down)
        self._check_path(here, up_port, there, down_port)
        links = [nics, 2 * (here * self.uplinks + up_port), 2 * (there * self.uplinks + down_port) + 1]
        far = self.pod_of_leaf[here] != self.pod_of_leaf[there]
        if far.any():
            links.append(self._core_links(senders[far], here[far], there[far], up[far], up_port[far]))
        return np.concatenate(links)

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
            of_sender, out, into = senders % classes, self.member[senders] // classes, self.member[receivers] // classes
            if (out >= held[here]).any() or (into >= held[there]).any():
                raise Fault("routing gives a leaf fewer links of a class than its ranks need")
            return of_sender * held[here] + out, of_sender * held[there] + into
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

    def _check_path(self, here: Ints, up: Ints, there: Ints, down: Ints) -> None:
        """Through optical switches both uplinks must end on the same spine, or on each other."""
        if not self.ocs:
            return  # one number is one spine at every leaf
        one, other = self.far[here, up], self.far[there, down]
        joined = (one == -2 - there) & (other == -2 - here) & (up == down)
        wrong = ~(((one >= 0) & (one == other)) | joined)
        if wrong.any():
            at = int(np.argmax(wrong))
            ends = [f"{self.leaf_name(int(leaf[at]))} fibre {port[at]}" for leaf, port in ((here, up), (there, down))]
            raise Fault(f"no circuit leads from {' to '.join(ends)}")

    def _core_links(self, senders: Ints, here: Ints, there: Ints, index: Ints, port: Ints) -> Ints:
        """Up to a core and down again, for flows between pods."""
        cores: list[list[int]] = self.routing.get("cores", [])
        if not cores:
            raise Fault("flows cross pods, but routing names no cores")
        turn = self.index[senders] // self.routing["modulus"] % self.routing["core_modulus"]
        try:
            core = np.array([cores[i][t] for i, t in zip(index.tolist(), turn.tolist(), strict=True)], np.int64)
        except IndexError:
            raise Fault("routing.cores has fewer cores than core_modulus") from None
        if core.max(initial=0) >= self.cores:
            raise Fault(f"routing uses core {core.max()}, but a group has {self.cores}")
        pods = self.pod_of_leaf[np.stack([here, there])]
        up, down = self.leaves * self.uplinks + (pods * self.uplinks + port) * self.cores + core
        return np.concatenate([2 * up, 2 * down + 1])

    def worst(self, pattern: str) -> tuple[Worst, Marks]:
        """The fullest link over all steps of a pattern, and which cables (then, on rails, NICs) it uses."""
        worst, used = Worst(0, "", ""), self.nothing()
        for label, senders, receivers in pattern_steps(pattern, self.order.size):
            links = self.links_of(senders, receivers)
            if not links.size:
                continue
            used_links, counts = self._counted(links)
            used[used_links // 2] = True
            if counts.max() > worst.flows:
                cable, down = divmod(int(used_links[counts.argmax()]), 2)
                ends = self.cable_name(cable)
                worst = Worst(int(counts.max()), label, " -> ".join(reversed(ends) if down else ends))
        return worst, used

    def nothing(self) -> Marks:
        """A mark for every cable and, on rails, for every NIC: none set."""
        return np.zeros(self.cables + (self.gpus if self.kind == "rail" else 0), np.bool_)

    def _counted(self, links: Ints) -> tuple[Ints, Ints]:
        """Every link used once, and how often it was; sorting is slower where most links are used."""
        if 2 * self.cables > 16 * links.size or self.kind == "rail":
            return np.unique(links, return_counts=True)
        counts = np.bincount(links)
        links_in_use = np.flatnonzero(counts)
        return links_in_use, counts[links_in_use]

    def leaf_name(self, leaf: int) -> str:
        """As certificates name leaves."""
        if self.kind == "rail":
            return f"leaf{leaf // self.per_server}.r{leaf % self.per_server}"
        return f"leaf{leaf}"

    def cable_name(self, cable: int) -> tuple[str, str]:
        """As certificates name cables; NICs, which they do not list, by GPU."""
        if cable >= self.cables:
            gpu = cable - self.cables
            leaf = self.group_of_server[gpu // self.per_server] * self.per_server + gpu % self.per_server
            return f"gpu{gpu}", self.leaf_name(int(leaf))
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

    def cable_of(self, low: str, high: str) -> int | None:
        """The cable with these ends; None if the fabric has none. Names are not listed: a small file may describe millions."""
        below, above = (list(map(int, re.findall("[0-9]+", end))) for end in (low, high))
        if low.startswith("agg") and len(below) == len(above) == 2:
            switch = below[0] * self.uplinks + below[1]
            cable = self.leaves * self.uplinks + switch * self.cores + above[1]
        else:
            leaf = below[0] * self.per_server + below[-1] if self.kind == "rail" else below[0]
            upper = above[1:] if self.kind == "three-tier" else above
            upper = [*upper, 0] if self.lanes == 1 else upper
            if len(upper) != 2:
                return None
            cable = leaf * self.uplinks + upper[0] * self.lanes + upper[1]
        return cable if cable < self.cables and self.cable_name(cable) == (low, high) else None
