"""The form of a certificate: every field with its type and bounds, and what the fields must say together.

Part of the verifier, so it shares no code with the allocator. A number that a small file can write must not make the check
run out of memory or time: everything that a table or a loop is sized by is bounded here, before anything is worked out.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, FailFast, Field, StringConstraints, ValidationError

from headway.io.json_file import shown

# Sizes beyond any cluster. The ranks of one job bound the time of the check, which follows every pair of them for all-to-all.
MOST_GPUS = 1 << 20
MOST_LEAVES = 1 << 16
MOST_CABLES = 1 << 22
MOST_RANKS = 1 << 15
MOST_UPLINKS = 64
MOST_PATTERNS = 32
# Of an object. Ours have at most eleven; pydantic complains of every unknown one, which takes kilobytes each.
MOST_KEYS = 32

_Gpu = Annotated[int, Field(ge=0, lt=MOST_GPUS)]
_Leaf = Annotated[int, Field(ge=0, lt=MOST_LEAVES)]
_Port = Annotated[int, Field(ge=0, lt=MOST_LEAVES)]
_Uplinks = Annotated[list[_Port], Field(max_length=MOST_UPLINKS), FailFast()]
_Gbps = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
# No control characters and nothing that a terminal or a shell could take for more than a name.
_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,63}$")]
_End = Annotated[str, StringConstraints(pattern=r"^[a-z]{3,5}[0-9]{1,7}(\.r?[0-9]{1,7}){0,2}$")]
_Number = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,6})$")]
_Pattern = Annotated[str, StringConstraints(pattern=r"^[a-z-]{1,32}(:[1-9][0-9]{0,6})?$")]


class _Strict(BaseModel, extra="forbid", strict=True):
    """Nothing but the fields named, each of its own type."""


class _Ocs(_Strict):
    switches: int = Field(ge=1, le=MOST_UPLINKS)
    spine_fibres: int = Field(ge=1, le=MOST_LEAVES)


class _Fabric(_Strict):
    name: _Name
    kind: Literal["leaf-spine", "rail", "three-tier"]
    servers_on_leaf: Annotated[list[_Leaf], FailFast()] = Field(min_length=1, max_length=MOST_LEAVES)
    gpus_per_server: int = Field(ge=1, le=MOST_LEAVES)
    spines: int = Field(ge=1, le=MOST_LEAVES)
    parallel_links: int = Field(ge=1, le=MOST_UPLINKS)
    link_gbps: _Gbps
    server_gbps: _Gbps
    leaf_pod: Annotated[list[_Leaf], FailFast()] = Field(default=[], max_length=MOST_LEAVES)
    cores_per_group: int = Field(default=0, ge=0, le=MOST_LEAVES)
    ocs: _Ocs | None = None


class _Circuit(_Strict):
    ocs: _Port
    leaf: _Leaf
    spine: _Port = -1  # absent unless the circuit ends on a spine
    fibre: _Port = -1
    other_leaf: _Leaf = -1  # absent unless it ends on a leaf


class _Routing(_Strict):
    rule: Literal["none", "rank-mod", "by-member", "by-class", "direct"]
    modulus: int = Field(default=0, ge=1, le=MOST_RANKS)
    spines: _Uplinks = []
    fibres: dict[_Number, _Uplinks] = Field(default={}, max_length=MOST_LEAVES)
    near: _Leaf = 0
    core_modulus: int = Field(default=0, ge=1, le=MOST_RANKS)
    cores: Annotated[
        list[Annotated[list[_Port], Field(max_length=MOST_RANKS), FailFast()]],
        Field(max_length=MOST_UPLINKS),
        FailFast(),
    ] = []


class _Signature(_Strict):
    algorithm: Literal["ed25519"]
    public_key: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{43}=$")]
    value: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{86}==$")]


class _Certificate(_Strict):
    version: int = Field(ge=1, le=1)
    fabric: _Fabric
    gpus: Annotated[list[_Gpu], FailFast()] = Field(min_length=1, max_length=MOST_RANKS)
    rank_order: Annotated[list[_Gpu], FailFast()] = Field(max_length=MOST_RANKS)
    links: Annotated[list[tuple[_End, _End]], FailFast()] = Field(max_length=MOST_CABLES)
    circuits: Annotated[list[_Circuit], FailFast()] = Field(max_length=MOST_CABLES)
    routing: _Routing
    patterns: Annotated[list[_Pattern], FailFast()] = Field(max_length=MOST_PATTERNS)
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
    signature: _Signature | None = None


# What a routing rule says besides its name, without an OCS layer and with one.
_ELECTRICAL: dict[str, set[str]] = {"none": set(), "rank-mod": {"modulus", "spines"}}
_OPTICAL: dict[str, set[str]] = {
    "none": set(),
    "rank-mod": {"modulus", "fibres"},
    "by-member": {"fibres"},
    "by-class": {"fibres", "modulus"},
    "direct": {"fibres", "near"},
}


def malformed(content: Any) -> str:
    """Why this is no certificate as issued; empty if it is one."""
    if reason := _crowded(content):
        return reason
    try:
        _Certificate.model_validate_json(json.dumps(content, allow_nan=False))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(shown(str(part)) for part in first["loc"]) or "certificate"
        if first["type"] == "string_pattern_mismatch":
            return f"field {field}: '{shown(first['input'])}' is not written as such a field is"
        return f"field {field}: {shown(first['msg'].lower())}"
    except (ValueError, TypeError, RecursionError) as error:
        return f"field certificate: not plain JSON data ({shown(str(error).lower())})"
    if reason := _impossible(content["fabric"]) or _misruled(content["routing"], content["fabric"]):
        return reason
    if not content["patterns"]:
        return "field patterns: promises no pattern, so there is nothing that it certifies"
    if content["digest"] != "sha256:" + hashlib.sha256(canonical(content)).hexdigest():
        return "the digest does not match: the certificate was changed after it was issued"
    return ""


def _crowded(content: Any) -> str:
    """Where an object has more keys than any of ours, before pydantic complains of each; empty if there is none."""
    if not isinstance(content, dict):
        return "field certificate: it should be an object"
    inside = [_parts("certificate", [content])]  # from the outermost to the innermost object or list
    while inside:
        where, value = next(inside[-1], ("", None))
        if not where:
            inside.pop()
        elif isinstance(value, list):
            inside.append(_parts(where, value))
        elif isinstance(value, dict):
            most = MOST_LEAVES if where == "fibres" else MOST_KEYS
            if len(value) > most:
                return f"field {where}: has {len(value):,} keys: at most {most:,}"
            inside.append((shown(str(key)) or "?", one) for key, one in value.items())
    return ""


def _parts(where: str, several: list[Any]) -> Iterator[tuple[str, Any]]:
    return ((where, one) for one in several if isinstance(one, (dict, list)))


def canonical(content: dict[str, Any]) -> bytes:
    """What digest and signature are made of: sorted keys, no spaces, everything but the two themselves."""
    rest = {key: value for key, value in content.items() if key not in ("digest", "signature")}
    return json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()


def complete_fabric(fabric: dict[str, Any]) -> dict[str, Any]:
    """A fabric's description with the fields that it may leave out, so that two descriptions can be compared."""
    return _Fabric.model_validate_json(json.dumps(fabric)).model_dump()


def _impossible(fabric: dict[str, Any]) -> str:
    """Why the fabric described cannot exist; empty if it can."""
    kind, on_leaf, ocs = fabric["kind"], fabric["servers_on_leaf"], fabric.get("ocs")
    pods, cores = fabric.get("leaf_pod") or [], fabric.get("cores_per_group") or 0
    leaves = len(on_leaf) * (fabric["gpus_per_server"] if kind == "rail" else 1)
    uplinks = ocs["switches"] if ocs else fabric["spines"] * fabric["parallel_links"]
    cables = leaves * uplinks + (max(pods, default=0) + 1) * uplinks * cores
    if not on_leaf[-1]:
        return "field fabric.servers_on_leaf: the last leaf has no servers"
    if sum(on_leaf) * fabric["gpus_per_server"] > MOST_GPUS:
        return f"field fabric: more than {MOST_GPUS:,} GPUs"
    if uplinks > MOST_UPLINKS:
        return f"field fabric: {uplinks:,} uplinks per leaf: at most {MOST_UPLINKS}"
    if leaves > MOST_LEAVES or cables > MOST_CABLES:
        return f"field fabric: more than {MOST_LEAVES:,} leaves or {MOST_CABLES:,} cables"
    if kind == "three-tier" and (len(pods) != leaves or max(pods) >= leaves or not cores):
        return "field fabric.leaf_pod: a three-tier fabric has the pod of every leaf, and cores"
    if kind != "three-tier" and (pods or cores):
        return "field fabric.leaf_pod: only a three-tier fabric has pods and cores"
    if ocs and (kind != "leaf-spine" or fabric["parallel_links"] != 1):
        return "field fabric.ocs: only a leaf-spine fabric with single links has an OCS layer"
    return ""


def _misruled(routing: dict[str, Any], fabric: dict[str, Any]) -> str:
    """What the routing rule needs and does not say, or says and does not obey; empty if it is all right."""
    rule, rules = routing["rule"], _OPTICAL if fabric.get("ocs") else _ELECTRICAL
    if rule not in rules:
        return f"field routing.rule: {rule} is for fabrics with an OCS layer"
    needed, fields = rules[rule], set(routing) - {"rule"}
    if fabric["kind"] == "three-tier" and "cores" in fields:
        needed = needed | {"cores", "core_modulus"}
    if missing := sorted(needed - fields):
        return f"field routing.{missing[0]}: missing for {rule}"
    if further := sorted(fields - needed):
        return f"field routing.{further[0]}: has no meaning with {rule} on this fabric"
    # A spine tells link indices apart by the port that packets come in by.
    twice = [
        held for held in (routing.get("spines", []), *routing.get("fibres", {}).values()) if len(set(held)) != len(held)
    ]
    return "field routing: an uplink is named twice for one leaf" if twice else ""
