"""A placement written out so that others can check it: GPUs, rank order, links, circuits, routing rule, patterns.

The JSON is the interface between the allocator and everyone else: `verify` works out every link from it again, with separate code, and
`routes` turns it into switch configuration. A digest over the canonical form reveals a damaged or hand-edited file; an Ed25519 signature
over the same form, where there is one, says who issued it.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headway.network.certificates.signature import sign
from headway.network.fabric.model import Fabric, Ocs

VERSION = 1
# Fields of a fabric that certificates carry as they are.
PLAIN_FIELDS = ("gpus_per_server", "spines", "parallel_links", "link_gbps", "server_gbps")


@dataclass(frozen=True, slots=True)
class CrossConnect:
    """One cross-connect of an OCS: a leaf's fibre to a spine's fibre, or to another leaf's."""

    ocs: int
    leaf: int
    spine: int = -1
    fibre: int = -1  # which of the spine's fibres to this OCS
    other_leaf: int = -1

    def as_json(self) -> dict[str, int]:
        """As written in certificates."""
        return {end: number for end, number in asdict(self).items() if number >= 0}


@dataclass(frozen=True, slots=True)
class Certificate:
    """One isolated placement. `rank_order[r]` is the GPU of rank r; `links` are both ends of every cable held."""

    fabric: Fabric
    rank_order: tuple[int, ...]
    links: tuple[tuple[str, str], ...]
    routing: dict[str, Any]
    patterns: tuple[str, ...]
    circuits: tuple[CrossConnect, ...] = ()

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

    def as_text(self, key: bytes | None = None) -> str:
        """The JSON text, signed where a private key is given."""
        content = self.as_json()
        return text_of(signed(content, key) if key else content)


def text_of(content: dict[str, Any]) -> str:
    """A certificate's plain data as it is written to files."""
    return json.dumps(content, indent=None, separators=(", ", ": ")) + "\n"


def signed(content: dict[str, Any], key: bytes) -> dict[str, Any]:
    """The same certificate with the signature of a private key, in place of one it may have."""
    return content | {"signature": sign(key, _canonical(content))}


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON of everything but the digest itself and the signature."""
    return "sha256:" + hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: dict[str, Any]) -> bytes:
    """Sorted keys, no spaces."""
    rest = {key: value for key, value in content.items() if key not in ("digest", "signature")}
    return json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()


def describe(fabric: Fabric) -> dict[str, Any]:
    """A fabric in full, as certificates carry it: nobody needs the file it came from."""
    on_leaf = np.bincount(fabric.server_leaf).tolist()
    content: dict[str, Any] = {"name": fabric.name, "kind": fabric.kind, "servers_on_leaf": on_leaf}
    content |= {name: getattr(fabric, name) for name in PLAIN_FIELDS}
    if fabric.kind == "three-tier":
        content |= {"leaf_pod": list(fabric.leaf_pod), "cores_per_group": fabric.cores_per_group}
    return content | ({"ocs": asdict(fabric.ocs)} if fabric.ocs else {})


def fabric_of(content: dict[str, Any]) -> Fabric:
    """The fabric that a certificate describes."""
    on_leaf, ocs = content["servers_on_leaf"], content.get("ocs")
    fields = {name: value for name, value in content.items() if name != "servers_on_leaf"}
    fields["server_group"] = tuple(np.repeat(np.arange(len(on_leaf)), on_leaf).tolist())
    fields["leaf_pod"] = tuple(content.get("leaf_pod") or ())
    return Fabric(**fields | {"ocs": Ocs(**ocs) if ocs else None})


def certificate_from(content: dict[str, Any]) -> Certificate:
    """A certificate from checked plain data (`verify` checks)."""
    return Certificate(
        fabric_of(content["fabric"]),
        tuple(content["rank_order"]),
        tuple((low, high) for low, high in content["links"]),
        content["routing"],
        tuple(content["patterns"]),
        tuple(CrossConnect(**one) for one in content["circuits"]),
    )
