"""Verification of certificates: every link that a job uses is held by this job alone, and used by one flow at a time.

For every pattern a certificate promises, every step is worked out again (`flows`) and every link must carry at
most one flow and be among the links held. Several certificates together must hold no GPU, link or optical port twice.
Patterns that are not promised are reported too: clean, or with their fullest link, or with a link that is not held. Nothing here
comes from the allocator.

A certificate describes its fabric itself. Whether that is the fabric that stands in the hall is known only if the caller
gives it (the anchored check); without it a verdict says that the fabric is the certificate's own claim.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.io.json_file import shown
from headway.network.certificates.flows import Fault, FlowModel, Marks, Undefined, Worst, refuse_undefined
from headway.network.certificates.form import canonical, complete_fabric, malformed
from headway.network.certificates.signature import fingerprint, is_signed_by, key_in

EXTRA_PATTERNS = ("ring", "halving-doubling", "all-to-all", "pipeline")
# What only one certificate may hold: a GPU, a link by both its ends, or a spine's port on an optical switch.
Holding = tuple[str | int, ...]
OWN_CLAIM = "the fabric is the certificate's own claim: give --fabric to check against the real one"


@dataclass(frozen=True, slots=True)
class PatternFinding:
    """One pattern on one certificate. `bound` is the least part of a link's rate that every flow gets."""

    pattern: str
    promised: bool
    worst: Worst
    not_held: int = 0  # links that the pattern uses and the certificate does not hold
    first_not_held: str = ""
    fault: str = ""  # why the pattern cannot be followed

    @property
    def held(self) -> bool:
        """Whether the pattern can be followed, on links that are all held."""
        return not self.not_held and not self.fault

    @property
    def clean(self) -> bool:
        """Every link that the pattern uses is held, and none carries two flows in one step."""
        return self.worst.flows <= 1 and self.held

    @property
    def bound(self) -> float:
        """1 when clean; 1/k when the fullest link carries k flows; 0 when others may use a link as well."""
        return 1.0 / max(self.worst.flows, 1) if self.held else 0.0

    @property
    def complaint(self) -> str:
        """Why the pattern is not clean; empty if it is."""
        if self.fault:
            return self.fault
        if self.not_held:
            more = f" and {self.not_held - 1} more" if self.not_held > 1 else ""
            return f"uses {self.first_not_held}{more}, which it does not hold"
        if self.worst.flows > 1:
            return f"{self.worst.link} carries {self.worst.flows} flows, at most 1/{self.worst.flows} each"
        return ""

    def as_json(self) -> dict[str, Any]:
        """As `headway fabric verify --json` prints it."""
        return {
            "pattern": self.pattern,
            "promised": self.promised,
            "clean": self.clean,
            "held": self.held,
            "first_link_not_held": self.first_not_held,
            "worst_link": self.worst.link,
            "worst_flows": self.worst.flows,
            "bound": self.bound,
        }


@dataclass(slots=True)
class Verdict:
    """What was found about one certificate; `reasons` are why it is rejected."""

    where: str
    anchored: bool = False  # the fabric was given, and is the one that the certificate describes
    own_claim: bool = True  # no fabric was given to check against
    ranks: int = 0
    fabric: str = ""
    signature: str = "none"  # or wrong, or valid, or unchecked (right, but nobody said whose it should be)
    signed_by: str = ""
    reasons: list[str] = field(default_factory=list)
    findings: list[PatternFinding] = field(default_factory=list)

    @property
    def isolation(self) -> str:
        """rejected; full (every pattern looked at is clean, on links that are held); or partial."""
        if self.reasons:
            return "rejected"
        return "full" if all(one.clean for one in self.findings) else "partial"

    @property
    def notes(self) -> list[str]:
        """What the verdict rests on and was not checked."""
        notes = [OWN_CLAIM] if self.own_claim and self.fabric else []
        if self.signature == "unchecked":
            notes.append(f"signed by {self.signed_by}, which nobody vouched for: give --key to say whose it must be")
        return notes

    def as_json(self) -> dict[str, Any]:
        """As `headway fabric verify --json` prints it."""
        return {
            "certificate": self.where,
            "gpus": self.ranks,
            "fabric": self.fabric,
            "anchored": self.anchored,
            "signature": self.signature,
            "signed_by": self.signed_by,
            "isolation": self.isolation,
            "reasons": self.reasons,
            "notes": self.notes,
            "patterns": [finding.as_json() for finding in self.findings],
        }


def verify(
    certificates: list[tuple[str, Any]],
    fabric: dict[str, Any] | None = None,
    key: bytes | None = None,
    in_force: Mapping[Holding, str] | None = None,
) -> list[Verdict]:
    """Check certificates, each given as (name, plain data), alone and against one another.

    `fabric` is the real fabric as certificates describe it, `key` the public key that must have signed them all. What certificates
    `in_force` hold, each thing with its holder, is held by no other: they were accepted before on the same fabric, and are not checked
    again.
    """
    verdicts = []
    held: dict[Holding, str] = {}
    before = in_force or {}
    known = complete_fabric(fabric) if fabric else None
    first = "the one given" if fabric else ""
    for where, content in certificates:
        verdict = Verdict(where, own_claim=fabric is None)
        verdicts.append(verdict)
        if reason := malformed(content):
            verdict.reasons.append(reason)
            continue
        verdict.ranks, verdict.fabric = len(content["rank_order"]), content["fabric"]["name"]
        _check_signature(content, key, verdict)
        described = complete_fabric(content["fabric"])
        if known and described != known:
            verdict.reasons.append(f"is of another fabric than {first}: {_difference(described, known)}")
            continue
        verdict.anchored = fabric is not None
        _check_alone(content, verdict)
        if verdict.reasons:
            continue
        if known is None:
            known, first = described, where
        for thing in holdings(content):
            if holder := before.get(thing, held.get(thing)):
                verdict.reasons.append(f"holds {thing[0]} {'-'.join(map(str, thing[1:]))}, which {holder} holds")
            held.setdefault(thing, where)
    return verdicts


def _difference(described: dict[str, Any], known: dict[str, Any]) -> str:
    """The first field in which two fabrics differ."""
    name = next(name for name in described if described[name] != known[name])
    ours, theirs = (shown(str(one[name])) for one in (described, known))
    return f"{name} is {ours}, not {theirs}"


def _check_signature(content: dict[str, Any], key: bytes | None, verdict: Verdict) -> None:
    """A signature must be right; where the key is known it must be there, and by that key."""
    signature = content.get("signature")
    if not signature:
        if key:
            verdict.reasons.append(f"is not signed; it must be by {fingerprint(key)}")
        return
    own = key_in(signature)
    verdict.signature, verdict.signed_by = "wrong", fingerprint(own)
    if key and own != key:
        verdict.reasons.append(f"is signed by {fingerprint(own)}, not by {fingerprint(key)}")
    elif not is_signed_by(own, canonical(content), signature):
        verdict.reasons.append("the signature does not match: the certificate was changed after it was signed")
    else:
        verdict.signature = "valid" if key else "unchecked"


def _check_alone(content: dict[str, Any], verdict: Verdict) -> None:
    """GPUs, links, circuits and every pattern of one certificate."""
    model = FlowModel(content)
    order = content["rank_order"]
    if sorted(order) != content["gpus"]:
        verdict.reasons.append("rank_order is not an order of gpus")
    if len(set(order)) != len(order):
        verdict.reasons.append("a GPU has two ranks")
    if not all(0 <= gpu < model.gpus for gpu in order):
        verdict.reasons.append(f"names GPUs outside 0 to {model.gpus - 1}")
    held = model.nothing()
    for low, high in content["links"]:
        cable = model.cable_of(low, high)
        if cable is None:
            verdict.reasons.append(f"holds link {low} - {high}, which the fabric does not have")
        elif held[cable]:
            verdict.reasons.append(f"holds link {low} - {high} twice")
        else:
            held[cable] = True
    verdict.reasons += _wrong_circuits(content, model, held)
    if verdict.reasons:
        return
    if model.kind == "rail":
        held[model.cables + model.order] = True  # the NICs of its GPUs
    try:
        for name in content["patterns"]:
            refuse_undefined(name, len(order))  # before any is followed: that takes seconds per thousand ranks
        model.follow()
        _check_patterns(content, model, held, verdict)
    except Fault as fault:
        verdict.reasons.append(str(fault))


def _wrong_circuits(content: dict[str, Any], model: FlowModel, held: Marks) -> list[str]:
    """Circuits must exist, use every port once and be exactly the circuits of the links held."""
    if not model.ocs:
        return ["has circuits, but the fabric has no OCS layer"] if content["circuits"] else []
    wrong, ends = [], set()
    for one in content["circuits"]:
        if not _exists(one, model, content["fabric"]["spines"]):
            wrong.append(f"circuit {shown(str(one))} does not exist on this fabric")
            continue
        for leaf in (one["leaf"], one["other_leaf"]) if "other_leaf" in one else (one["leaf"],):
            end = leaf * model.uplinks + one["ocs"]
            if end in ends:
                wrong.append(f"two circuits on {' - '.join(model.cable_name(end))}")
            ends.add(end)
    if wrong:
        return wrong
    ports = _spine_ports(content)
    if len(set(ports)) != len(ports):
        return ["two circuits on one spine port"]
    return ["the circuits do not end on the links held"] if ends != set(np.flatnonzero(held).tolist()) else []


def _exists(circuit: dict[str, int], model: FlowModel, spines: int) -> bool:
    """Whether a circuit joins a leaf to a spine's fibre, or to another leaf, that the fabric has."""
    leaves, ends = [circuit["leaf"]], set(circuit) - {"ocs", "leaf"}
    if ends == {"other_leaf"}:
        leaves.append(circuit["other_leaf"])
    elif ends != {"spine", "fibre"} or circuit["spine"] >= spines or circuit["fibre"] >= model.ocs["spine_fibres"]:
        return False
    return circuit["ocs"] < model.uplinks and max(leaves) < model.leaves


def _spine_ports(content: dict[str, Any]) -> list[tuple[int, int, int]]:
    return [(one["ocs"], one["spine"], one["fibre"]) for one in content["circuits"] if "spine" in one]


def _check_patterns(content: dict[str, Any], model: FlowModel, held: Marks, verdict: Verdict) -> None:
    """Promised patterns must be clean on links held; others are looked at where they exist."""
    promised = content["patterns"]
    for name in dict.fromkeys([*promised, *EXTRA_PATTERNS]):
        try:
            worst, used = model.worst(name)
        except Fault as fault:
            if name in promised:
                raise
            if not isinstance(fault, Undefined):
                verdict.findings.append(PatternFinding(name, False, Worst(0, "", ""), fault=str(fault)))
            continue
        foreign = np.flatnonzero(used & ~held)
        first = " - ".join(model.cable_name(int(foreign[0]))) if foreign.size else ""
        finding = PatternFinding(name, name in promised, worst, foreign.size, first)
        verdict.findings.append(finding)
        if not finding.promised:
            continue
        if worst.flows > 1:
            flows = f"{worst.flows} flows at once ({worst.step}): at most 1/{worst.flows} of its rate each"
            verdict.reasons.append(f"{name} is promised, but {worst.link} carries {flows}")
        if first:
            verdict.reasons.append(f"{name} is promised, but uses {first}, a link it does not hold")


def holdings(content: dict[str, Any]) -> list[Holding]:
    """Everything of a checked certificate that no other may hold."""
    gpus: list[Holding] = [("GPU", gpu) for gpu in content["gpus"]]
    links: list[Holding] = [("link", low, high) for low, high in content["links"]]
    ports: list[Holding] = [
        ("port", f"ocs{ocs}", f"spine{spine}.{fibre}") for ocs, spine, fibre in _spine_ports(content)
    ]
    return gpus + links + ports
