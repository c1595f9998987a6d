"""A placement written out so that others can check it: GPUs, rank order, links, circuits, routing rule, patterns.

The JSON is the interface between the allocator and everyone else: `verify` works out every link from it again, with separate code, and
`routes` turns it into switch configuration. A digest over the canonical form reveals a damaged or hand-edited file; it is not a
signature.
"""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import BadInput
from headway.network.fabric.model import Fabric, Ocs

VERSION = 1


@dataclass(frozen=True, slots=True)
class Circuit:
    """One cross-connect of an OCS: a leaf's fibre to a spine's fibre, or to another leaf's."""

    ocs: int
    leaf: int
    spine: int = -1
    fibre: int = -1  # which of the spine's fibres to this OCS
    other_leaf: int = -1

    def as_json(self) -> dict[str, int]:
        """As written in certificates."""
        if self.other_leaf >= 0:
            return {"ocs": self.ocs, "leaf": self.leaf, "other_leaf": self.other_leaf}
        return {"ocs": self.ocs, "leaf": self.leaf, "spine": self.spine, "fibre": self.fibre}


@dataclass(frozen=True, slots=True)
class Certificate:
    """One isolated placement. `rank_order[r]` is the GPU of rank r; `links` are both ends of every cable held."""

    fabric: Fabric
    rank_order: tuple[int, ...]
    links: tuple[tuple[str, str], ...]
    routing: dict[str, Any]
    patterns: tuple[str, ...]
    circuits: tuple[Circuit, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The certificate as plain data, with its digest."""
        content: dict[str, Any] = {
            "version": VERSION,
            "fabric": describe(self.fabric),
            "gpus": sorted(self.rank_order),
            "rank_order": list(self.rank_order),
            "links": [list(link) for link in self.links],
            "circuits": [circuit.as_json() for circuit in self.circuits],
            "routing": self.routing,
            "patterns": list(self.patterns),
        }
        return content | {"digest": digest_of(content)}

    def as_text(self) -> str:
        """The JSON text."""
        return json.dumps(self.as_json(), indent=None, separators=(", ", ": ")) + "\n"


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON (sorted keys, no spaces) of everything but the digest itself."""
    rest = {key: value for key, value in content.items() if key != "digest"}
    return "sha256:" + hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def describe(fabric: Fabric) -> dict[str, Any]:
    """A fabric in full, as certificates carry it: nobody needs the file it came from."""
    on_leaf = Counter(fabric.server_group)
    content: dict[str, Any] = {
        "name": fabric.name,
        "kind": fabric.kind,
        "servers_on_leaf": [on_leaf[group] for group in range(fabric.groups)],
        "gpus_per_server": fabric.gpus_per_server,
        "spines": fabric.spines,
        "parallel_links": fabric.parallel_links,
        "link_gbps": fabric.link_gbps,
        "server_gbps": fabric.server_gbps,
    }
    if fabric.kind == "three-tier":
        content |= {"leaf_pod": list(fabric.leaf_pod), "cores_per_group": fabric.cores_per_group}
    if fabric.ocs:
        content["ocs"] = {"switches": fabric.ocs.switches, "spine_fibres": fabric.ocs.spine_fibres}
    return content


def fabric_of(content: dict[str, Any]) -> Fabric:
    """The fabric that a certificate describes."""
    ocs = content.get("ocs")
    return Fabric(
        name=content["name"],
        kind=content["kind"],
        server_group=tuple(leaf for leaf, count in enumerate(content["servers_on_leaf"]) for _ in range(count)),
        gpus_per_server=content["gpus_per_server"],
        spines=content["spines"],
        parallel_links=content["parallel_links"],
        leaf_pod=tuple(content.get("leaf_pod", ())),
        cores_per_group=content.get("cores_per_group", 0),
        link_gbps=content["link_gbps"],
        server_gbps=content["server_gbps"],
        ocs=Ocs(ocs["switches"], ocs["spine_fibres"]) if ocs else None,
    )


def certificate_from(content: dict[str, Any]) -> Certificate:
    """A certificate from checked plain data (`verify` checks)."""
    circuits = tuple(
        Circuit(one["ocs"], one["leaf"], one.get("spine", -1), one.get("fibre", -1), one.get("other_leaf", -1))
        for one in content["circuits"]
    )
    return Certificate(
        fabric=fabric_of(content["fabric"]),
        rank_order=tuple(content["rank_order"]),
        links=tuple((low, high) for low, high in content["links"]),
        routing=content["routing"],
        patterns=tuple(content["patterns"]),
        circuits=circuits,
    )


def read_json(path: str | Path) -> Any:
    """The plain data of a JSON file, or a refusal that names it."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadInput(f"{path}: not a certificate: not JSON ({error})") from None
