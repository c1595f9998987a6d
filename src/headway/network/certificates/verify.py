"""Checking certificates: is every link that a job uses held by it alone, and used by one flow at a time?

For every pattern a certificate promises, every step is worked out again (`flows`) and every link must carry at
most one flow and be among the links held. Several certificates together must hold no GPU, link or optical port twice.
Patterns that are not promised are reported too: clean, or with their fullest link and what it costs. Nothing here
comes from the allocator.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from headway.network.certificates.flows import Fault, Model, Worst

EXTRA_PATTERNS = ("ring", "halving-doubling", "all-to-all", "pipeline")

# Sizes beyond any cluster: a damaged number must not make the check itself run out of memory.
MOST_GPUS = 1 << 22
MOST_SWITCHES = 4096

_Count = Annotated[int, Field(ge=0, le=1 << 22)]


class _Strict(BaseModel, extra="forbid", strict=True):
    """Nothing but the fields named, each of its own type."""


class _Ocs(_Strict):
    switches: int = Field(ge=1, le=64)
    spine_fibres: int = Field(ge=1)


class _Fabric(_Strict):
    name: str
    kind: Literal["leaf-spine", "rail", "three-tier"]
    servers_on_leaf: list[_Count] = Field(min_length=1)
    gpus_per_server: int = Field(ge=1)
    spines: int = Field(ge=1)
    parallel_links: int = Field(ge=1)
    link_gbps: float = Field(gt=0)
    server_gbps: float = Field(gt=0)
    leaf_pod: list[_Count] | None = None
    cores_per_group: int = Field(default=0, ge=0)
    ocs: _Ocs | None = None


class _Circuit(_Strict):
    ocs: _Count
    leaf: _Count
    spine: _Count = -1  # absent unless the circuit ends on a spine
    fibre: _Count = -1
    other_leaf: _Count = -1  # absent unless it ends on a leaf


class _Routing(_Strict):
    rule: Literal["none", "rank-mod", "by-member", "by-class", "direct"]
    modulus: int = Field(default=0, ge=1)
    spines: list[_Count] = []
    fibres: dict[str, list[_Count]] = {}
    near: _Count = 0
    core_modulus: int = Field(default=0, ge=1)
    cores: list[list[_Count]] = []


class _Certificate(_Strict):
    version: Literal[1]
    fabric: _Fabric
    gpus: list[_Count] = Field(min_length=1)
    rank_order: list[_Count]
    links: list[tuple[str, str]]
    circuits: list[_Circuit]
    routing: _Routing
    patterns: list[str]
    digest: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One pattern on one certificate. `bound` is the least part of a link's rate that every flow gets."""

    pattern: str
    promised: bool
    worst: Worst

    @property
    def clean(self) -> bool:
        """No link carries two flows in one step."""
        return self.worst.flows <= 1

    @property
    def bound(self) -> float:
        """1 when clean; 1/k when the fullest link carries k flows."""
        return 1.0 / max(self.worst.flows, 1)

    def as_json(self) -> dict[str, Any]:
        """As `headway fabric verify --json` prints it."""
        return {
            "pattern": self.pattern,
            "promised": self.promised,
            "clean": self.clean,
            "worst_link": self.worst.link,
            "worst_flows": self.worst.flows,
            "bound": self.bound,
        }


@dataclass(slots=True)
class Verdict:
    """What was found about one certificate; `reasons` are why it is rejected."""

    where: str
    ranks: int = 0
    fabric: str = ""
    reasons: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def isolation(self) -> str:
        """rejected; full (clean for every pattern looked at); or partial."""
        if self.reasons:
            return "rejected"
        return "full" if all(one.clean for one in self.findings) else "partial"

    def as_json(self) -> dict[str, Any]:
        """As `headway fabric verify --json` prints it."""
        return {
            "certificate": self.where,
            "gpus": self.ranks,
            "isolation": self.isolation,
            "reasons": self.reasons,
            "patterns": [finding.as_json() for finding in self.findings],
        }


def verify(certificates: list[tuple[str, Any]]) -> list[Verdict]:
    """Check certificates, each given as (name, plain data), alone and against one another."""
    verdicts = []
    held: dict[tuple[Any, ...], str] = {}
    first_fabric: tuple[str, Any] | None = None
    for where, content in certificates:
        verdict = Verdict(where)
        verdicts.append(verdict)
        if reason := _malformed(content):
            verdict.reasons.append(reason)
            continue
        verdict.ranks, verdict.fabric = len(content["rank_order"]), content["fabric"]["name"]
        _check_alone(content, verdict)
        if verdict.reasons:
            continue
        if first_fabric and content["fabric"] != first_fabric[1]:
            other = f"is of another fabric than {first_fabric[0]}"
            verdict.reasons.append(f"{other}: only one fabric can be checked at once")
            continue
        first_fabric = first_fabric or (where, content["fabric"])
        for thing in _holdings(content):
            if thing in held:
                verdict.reasons.append(f"holds {thing[0]} {'-'.join(map(str, thing[1:]))}, which {held[thing]} holds")
            held.setdefault(thing, where)
    return verdicts


def _malformed(content: Any) -> str:
    """Why this is no certificate as issued; empty if it is one."""
    try:
        _Certificate.model_validate_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors()[0]
        return f"field {'.'.join(map(str, first['loc'])) or 'certificate'}: {first['msg'].lower()}"
    if reason := _inconsistent(content["fabric"]) or _incomplete(content["routing"]):
        return reason
    rest = {key: value for key, value in content.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    if content["digest"] != "sha256:" + hashlib.sha256(text.encode()).hexdigest():
        return "the digest does not match: the certificate was changed after it was issued"
    return ""


def _inconsistent(fabric: dict[str, Any]) -> str:
    """Why the fabric described cannot exist; empty if it can."""
    leaves = len(fabric["servers_on_leaf"])
    if sum(fabric["servers_on_leaf"]) * fabric["gpus_per_server"] > MOST_GPUS:
        return f"field fabric: more than {MOST_GPUS} GPUs"
    if fabric["spines"] * fabric["parallel_links"] > MOST_SWITCHES or fabric.get("cores_per_group", 0) > MOST_SWITCHES:
        return f"field fabric: more than {MOST_SWITCHES} switches of one kind"
    pods = fabric.get("leaf_pod")
    if fabric["kind"] == "three-tier" and (pods is None or len(pods) != leaves or max(pods) >= leaves):
        return "field fabric.leaf_pod: must name the pod of every leaf"
    if fabric["kind"] != "three-tier" and (pods or fabric.get("cores_per_group")):
        return "field fabric.leaf_pod: only a three-tier fabric has pods and cores"
    return ""


def _incomplete(routing: dict[str, Any]) -> str:
    """What the routing rule needs and does not say; empty if it is all there."""
    needed = {
        "none": (),
        "rank-mod": ("modulus",),
        "by-member": ("fibres",),
        "by-class": ("fibres", "modulus"),
        "direct": ("fibres", "near"),
    }
    missing = [name for name in needed[routing["rule"]] if name not in routing]
    if "cores" in routing and "core_modulus" not in routing:
        missing.append("core_modulus")
    return f"field routing.{missing[0]}: missing for {routing['rule']}" if missing else ""


def _check_alone(content: dict[str, Any], verdict: Verdict) -> None:
    """GPUs, links, circuits and every pattern of one certificate."""
    model = Model(content)
    order = content["rank_order"]
    if sorted(order) != content["gpus"]:
        verdict.reasons.append("rank_order is not an order of gpus")
    if len(set(order)) != len(order):
        verdict.reasons.append("a GPU has two ranks")
    if not all(0 <= gpu < model.gpus for gpu in order):
        verdict.reasons.append(f"names GPUs outside 0 to {model.gpus - 1}")
    cables = model.all_cables()
    held = set()
    for low, high in content["links"]:
        if (low, high) not in cables:
            verdict.reasons.append(f"holds link {low} - {high}, which the fabric does not have")
        elif cables[low, high] in held:
            verdict.reasons.append(f"holds link {low} - {high} twice")
        else:
            held.add(cables[low, high])
    verdict.reasons += _wrong_circuits(content, model, held)
    if verdict.reasons:
        return
    try:
        model.follow()
        _check_patterns(content, model, held, verdict)
    except Fault as fault:
        verdict.reasons.append(str(fault))


def _wrong_circuits(content: dict[str, Any], model: Model, held: set[int]) -> list[str]:
    """Circuits must exist, use every port once and be exactly the circuits of the links held."""
    if not model.ocs:
        return ["has circuits, but the fabric has no OCS layer"] if content["circuits"] else []
    wrong, ends = [], set()
    for one in content["circuits"]:
        if not _exists(one, model, content["fabric"]["spines"]):
            wrong.append(f"circuit {one} does not exist on this fabric")
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
    return ["the circuits do not end on the links held"] if ends != held else []


def _exists(circuit: dict[str, int], model: Model, spines: int) -> bool:
    """Whether a circuit joins a leaf to a spine's fibre, or to another leaf, that the fabric has."""
    leaves, ends = [circuit["leaf"]], set(circuit) - {"ocs", "leaf"}
    if ends == {"other_leaf"}:
        leaves.append(circuit["other_leaf"])
    elif ends != {"spine", "fibre"} or circuit["spine"] >= spines or circuit["fibre"] >= model.ocs["spine_fibres"]:
        return False
    return circuit["ocs"] < model.uplinks and max(leaves) < model.leaves


def _spine_ports(content: dict[str, Any]) -> list[tuple[int, int, int]]:
    return [(one["ocs"], one["spine"], one["fibre"]) for one in content["circuits"] if "spine" in one]


def _check_patterns(content: dict[str, Any], model: Model, held: set[int], verdict: Verdict) -> None:
    """Promised patterns must be clean on links held; others are looked at where they exist."""
    promised = content["patterns"]
    used: set[int] = set()
    for name in dict.fromkeys([*promised, *EXTRA_PATTERNS]):
        try:
            worst, cables = model.worst(name)
        except Fault:
            if name in promised:
                raise
            continue
        finding = Finding(name, name in promised, worst)
        verdict.findings.append(finding)
        if not finding.promised:
            continue
        used |= cables
        if not finding.clean:
            flows = f"{worst.flows} flows at once ({worst.step}): at most 1/{worst.flows} of its rate each"
            verdict.reasons.append(f"{name} is promised, but {worst.link} carries {flows}")
    if foreign := sorted(used - held):
        verdict.reasons.append(f"uses {' - '.join(model.cable_name(foreign[0]))}, a link it does not hold")


def _holdings(content: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Everything that only one certificate may hold."""
    gpus = [("GPU", gpu) for gpu in content["gpus"]]
    links = [("link", low, high) for low, high in content["links"]]
    ports = [("port", f"ocs{ocs}", f"spine{spine}.{fibre}") for ocs, spine, fibre in _spine_ports(content)]
    return gpus + links + ports
