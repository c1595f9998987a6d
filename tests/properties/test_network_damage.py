"""Damaged certificates: whatever is changed, the verifier answers with a verdict, never with a traceback."""

import copy
import json

import numpy as np
import pytest

from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.certificate import digest_of
from headway.network.certificates.verify import verify
from headway.network.fabric.file import fabric_from

FABRICS = {
    "vclos": {"leaves": 4, "servers_per_leaf": 2, "gpus_per_server": 4, "spines": 8},
    "vclos-padded": {"kind": "rail", "segments": 3, "servers_per_segment": 4, "gpus_per_server": 2, "spines": 4},
    "ocs-vclos": {
        "leaves": 4, "servers_per_leaf": 2, "gpus_per_server": 4, "spines": 2, "ocs": {"switches": 8, "spine_fibres": 2},
    },
}  # fmt: skip
PODS = {
    "kind": "three-tier", "pods": 2, "leaves_per_pod": 2, "servers_per_leaf": 1, "gpus_per_server": 4, "spines": 4,
    "cores_per_group": 2,
}  # fmt: skip
VALUES = [None, -1, 0, 1, 2, 3, 7, 10**9, 1.5, "", "1", "ring", "leaf0", True, [], {}, [0], {"a": 1}]


def places(content, path=()):
    """Every place in the certificate, as a path of keys."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def damaged(content, rng):
    """One to three places changed, removed or doubled; the digest put right again most of the time."""
    content = copy.deepcopy(content)
    for _ in range(int(rng.integers(1, 4))):
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
        if not content:
            break
    if rng.random() < 0.9:
        content["digest"] = digest_of(content)
    return content


@pytest.mark.parametrize("method", [*FABRICS, "pods"])
def test_a_verdict_for_every_damage(method, rounds):
    fabric = fabric_from(FABRICS.get(method, PODS), "x")
    answer = allocate(occupied_by(fabric), 16, "vclos" if method == "pods" else method)
    content = json.loads(answer.certificate.as_text())
    rng = np.random.default_rng(23)
    rejected = 0
    for _ in range(rounds(400, 5000)):
        changed = damaged(content, rng)
        verdict = verify([("c", changed)])[0]
        rejected += verdict.isolation == "rejected"
        assert verdict.isolation == "rejected" or all(found.clean for found in verdict.findings if found.promised)
    assert rejected > 0.8 * rounds(400, 5000)
