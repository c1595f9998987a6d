"""Damaged and forged certificates, re-signed: whatever is changed, the verifier says what a naive checker of every flow says."""

import copy
import io
import json
import time
import tracemalloc

import numpy as np
import pytest
from rich.console import Console
from tests.naive_certificates import Fabric, Job, judge

from headway.cli.tables.fabrics import show_verdicts
from headway.errors import BadInput
from headway.io.json_file import parse_json
from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.certificate import digest_of
from headway.network.certificates.verify import verify
from headway.network.fabric.file import fabric_from
from headway.network.sharing.patterns import parse_pattern

# Name of the case: fabric, placement, sizes.
CASES = {
    "leaf-spine": ({"leaves": 4, "servers_per_leaf": 2, "gpus_per_server": 4, "spines": 8}, "vclos", (6, 12, 16)),
    "lanes": ({"leaves": 4, "servers_per_leaf": 1, "gpus_per_server": 4, "spines": 2, "parallel_links": 2}, "vclos", (8, 12)),
    "padded": ({"leaves": 5, "servers_per_leaf": 1, "gpus_per_server": 4, "spines": 4}, "vclos-padded", (9, 10, 15)),
    "rail": (
        {"kind": "rail", "segments": 3, "servers_per_segment": 4, "gpus_per_server": 2, "spines": 4}, "vclos", (2, 12, 16),
    ),
    "optical": (
        {"leaves": 4, "servers_per_leaf": 2, "gpus_per_server": 4, "spines": 2, "ocs": {"switches": 8, "spine_fibres": 2}},
        "ocs-vclos", (10, 16, 20, 24),
    ),
    "pods": (
        {"kind": "three-tier", "pods": 2, "leaves_per_pod": 2, "servers_per_leaf": 1, "gpus_per_server": 4, "spines": 4,
         "cores_per_group": 2}, "vclos", (4, 8, 16),
    ),
}  # fmt: skip
PATTERNS = (
    "ring", "all-to-all", "halving-doubling", "pipeline", "hybrid:2", "hybrid:4", "hierarchical-ring:4", "hybrid:16", "hybrid",
    "ring:2", "hybrid:0", "hybrid:²", "hybrid:04", "tree", "",
)  # fmt: skip
VALUES = (
    None, -1, 0, 1, 2, 3, 7, 8, 64, 65, 10**9, 2**63, 10**30, -(10**30), 1.5, 1e300, float("inf"), "", "1", "²", "01", "ring", "leaf0",
    "leaf0\n", "\ud800", "[/]", True, [], {}, [0], {"a": 1}, "x" * 1000,
)  # fmt: skip


def originals(case):
    """Certificates of several sizes and patterns on a busy fabric, also with as little as they can hold."""
    content, method, sizes = CASES[case]
    fabric = fabric_from({**content, "name": case}, "x")
    found = []
    for gpus in sizes:
        for pattern in (None, "ring", "all-to-all"):
            wanted = parse_pattern(pattern) if pattern else None
            first = allocate(occupied_by(fabric), gpus, method, wanted).certificate
            busy = occupied_by(fabric, [first])
            second = (
                allocate(busy, min(gpus, int(busy.gpu_free.sum()) // 2 or 1), method).certificate if found else None
            )
            found += [json.loads(one.as_text()) for one in (first, second) if one]
    return found + [thrifty(one) for one in found]


def thrifty(content):
    """The same certificate with one promise, the ring, and the links that the ring uses."""
    if content["circuits"]:  # links and circuits go together
        again = content | {"patterns": ["pipeline"]}
        return again | {"digest": digest_of(again)}
    job = Job(content, Fabric(content["fabric"]))
    used = {link for step in job.loads("ring") for link, _ in step}
    again = content | {"patterns": ["ring"], "links": [link for link in content["links"] if tuple(link) in used]}
    return again | {"digest": digest_of(again)}


def places(content, path=()):
    """Every place in the certificate, as a path of keys."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def swap(some, rng):
    if len(some) > 1:
        a, b = rng.choice(len(some), 2, replace=False)
        some[a], some[b] = some[b], some[a]


def drop(some, rng):
    if some:
        del some[int(rng.integers(len(some)))]


def forge(content, rng):
    """A change that keeps the form: what somebody would try who wants a promise for less."""
    routing = content["routing"]
    lists = [
        one
        for one in (routing.get("spines"), *routing.get("fibres", {}).values(), *routing.get("cores", []))
        if isinstance(one, list) and one
    ]
    choice = rng.integers(9)
    if choice == 0:
        swap(content["rank_order"], rng)
    elif choice == 1:
        drop(content["links"], rng)
    elif choice == 2:
        content["patterns"] = [str(one) for one in rng.choice(PATTERNS, int(rng.integers(0, 3)))]
    elif choice == 3 and "modulus" in routing:
        routing["modulus"] = max(1, routing["modulus"] + int(rng.integers(-2, 3)))
    elif choice == 4 and lists:
        one = lists[int(rng.integers(len(lists)))]
        one[int(rng.integers(len(one)))] = int(rng.integers(0, 9))
    elif choice == 5 and lists:
        swap(lists[int(rng.integers(len(lists)))], rng)
    elif choice == 6 and content["circuits"]:
        one = content["circuits"][int(rng.integers(len(content["circuits"])))]
        one[str(rng.choice(list(one)))] = int(rng.integers(0, 8))
    elif choice == 7 and content["gpus"]:
        at = int(rng.integers(len(content["rank_order"])))
        content["rank_order"][at] = int(rng.integers(0, 32))
        content["gpus"] = sorted(content["rank_order"])
    elif choice == 8:
        kept = int(rng.integers(1, len(content["rank_order"]) + 1))
        content["rank_order"] = content["rank_order"][:kept]
        content["gpus"] = sorted(content["rank_order"])


def damage(content, rng):
    """Any one place changed, removed or doubled."""
    every = list(places(content))
    path = every[int(rng.integers(len(every)))]
    inside = content
    for key in path[:-1]:
        inside = inside[key]
    change = rng.random()
    if change < 0.2:
        del inside[path[-1]]
    elif change < 0.3 and isinstance(inside, list):
        inside.append(copy.deepcopy(inside[path[-1]]))
    elif change < 0.6 and isinstance(inside[path[-1]], int):
        inside[path[-1]] += int(rng.integers(-3, 4))
    else:
        inside[path[-1]] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])


def changed(content, rng):
    """One to three changes; the digest put right again most of the time."""
    content = copy.deepcopy(content)
    for _ in range(int(rng.integers(1, 4))):
        try:
            (forge if rng.random() < 0.6 else damage)(content, rng)
        except (KeyError, TypeError, AttributeError, ValueError, IndexError):
            break  # an earlier change took the place away
    content = json.loads(json.dumps(content))  # as a file would say it
    if rng.random() < 0.97 and isinstance(content, dict):
        content["digest"] = digest_of(content)
    return content


@pytest.mark.parametrize("case", CASES)
def test_the_verifier_says_what_a_naive_checker_says(case, rounds):
    """Also against the real fabric, which a change may have left."""
    base = originals(case)
    real = base[0]["fabric"]
    rng = np.random.default_rng(41)
    said = {"rejected": 0, "partial": 0, "full": 0}
    for one in base:
        assert judge(one)[0] == verify([("c", one)])[0].isolation != "rejected"
    for turn in range(rounds(1500, 20_000)):
        content = changed(base[int(rng.integers(len(base)))], rng)
        anchor = real if rng.random() < 0.3 else None
        verdict = verify([("c", content)], anchor)[0]
        answer, found = judge(content, anchor)
        assert verdict.isolation == answer, f"turn {turn}: {verdict.reasons or verdict.findings}"
        said[answer] += 1
        assert all("\n" not in reason and reason.isascii() and len(reason) < 400 for reason in verdict.reasons)
        if answer != "rejected":
            assert {one.pattern: (one.worst.flows, one.held) for one in verdict.findings} == found, f"turn {turn}"
    assert min(said.values()) >= 0.005 * sum(said.values()), said


def test_any_bytes_are_an_answer_or_one_line(rounds):
    """Bytes of a certificate changed, cut, repeated: a refusal of one line, or a verdict that can be printed and written."""
    text = json.dumps(originals("optical")[0]).encode()
    pieces = [
        b"\\u0000",
        b"\\ud800",
        b"1e999",
        b"NaN",
        b"[" * 50,
        b'{"a":' * 50,
        b'"[/]"',
        b"\xff",
        b"9" * 40,
        b"-",
        b",,",
        b'"version": 1, ',
    ]
    rng, read = np.random.default_rng(7), 0
    for turn in range(rounds(1500, 20_000)):
        raw = bytearray(text)
        for _ in range(int(rng.integers(1, 4))):
            at, cut = int(rng.integers(len(raw))), int(rng.integers(0, 8))
            piece = (
                pieces[int(rng.integers(len(pieces)))]
                if rng.random() < 0.5
                else bytes(rng.integers(0, 256, 2, np.uint8))
            )
            raw[at : at + cut] = piece
        try:
            content = parse_json(bytes(raw), "c.json")
        except BadInput as error:
            said = str(error)
        else:
            read += 1
            verdict = verify([("c.json", content)])[0]
            said = verdict.reasons[0] if verdict.reasons else ""
            json.dumps(verdict.as_json())
            show_verdicts(Console(file=io.StringIO(), width=120), [verdict])
        assert said.isascii(), f"turn {turn}"
        assert not said or said.isprintable(), f"turn {turn}"
    assert read > 0


def bounded(content, real=None):
    """The verdict, with the most memory it took in MB and its CPU seconds."""
    tracemalloc.start()
    start = time.process_time()
    verdict = verify([("c", content)], real)[0]
    spent, (_, peak) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return verdict, peak / 1e6, spent


def test_small_files_do_not_unfold_to_gigabytes():
    """Every number of the fabric at every size: accepted or refused, the check stays within 300 MB."""
    content = originals("leaf-spine")[0]
    sizes = (63, 64, 65, 4095, 65535, 65536, 2**20, 2**22, 10**9, 10**30)
    names = ("spines", "parallel_links", "gpus_per_server", "cores_per_group")
    for kind in ("leaf-spine", "rail", "three-tier"):
        for on_leaf in ([1], [0, 1], [65535], [16, 65535], [1] * 64):
            for name in names:
                for size in sizes:
                    pods = [*range(len(on_leaf))] if kind == "three-tier" else []
                    fabric = content["fabric"] | {
                        "kind": kind,
                        "servers_on_leaf": on_leaf,
                        "leaf_pod": pods,
                        name: size,
                    }
                    again = content | {"fabric": fabric}
                    again |= {"digest": digest_of(again)}
                    _, most, _ = bounded(again)
                    assert most < 300, (kind, on_leaf[:3], name, size)


@pytest.mark.parametrize(
    ("field", "wrong", "complaint"),
    [
        ("circuits", lambda some: [{}] * some, "field circuits.0.ocs: field required"),
        ("links", lambda some: [0] * some, "field links.0: input should be a valid array"),
        ("links", lambda some: [["x", "y"]] * some, "field links.0.0: 'x' is not written as such a field is"),
        ("gpus", lambda some: [""] * some, "field gpus.0: input should be a valid integer"),
        ("routing", lambda some: {f"z{at}": 0 for at in range(some)}, "field routing: has 100,000 keys: at most 32"),
        ("circuits", lambda some: [{"ocs": 0, "leaf": 0, **{f"z{at}": 0 for at in range(some)}}], "field circuits: has 100,002 keys"),
    ],
)  # fmt: skip
def test_many_mistakes_are_one_line(field, wrong, complaint):
    """A complaint of every part that is wrong made gigabytes of a file of 15 MB: the first of them is enough."""
    content = originals("leaf-spine")[0] | {field: wrong(100_000)}
    verdict, most, _ = bounded(content)
    assert len(verdict.reasons) == 1
    assert verdict.reasons[0].startswith(complaint)
    assert most < 25
