"""How long certificates take to verify, and how many rules their routes are on one switch.

    python -m bench.certificates

Rules: slices of a busy optical fabric whose leaves are uneven (routing by class of ranks), the fullest switch of each size;
`pairs` is one rule for every pair of incoming port and receiver, as it was before tables were shared by the ports of a class.
Times are CPU time of this process.
"""

import json
import time
from collections.abc import Iterator

import numpy as np

from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.certificate import Certificate
from headway.network.certificates.verify import verify
from headway.network.fabric.model import Fabric
from headway.network.routes.plan import planned
from headway.network.routes.policies import devices_of
from headway.network.routes.render import FORMATS
from headway.sim.network_files import load_fabric

SIZES = (24, 40, 48, 64, 72, 80, 100, 128)


def busy(fabric: Fabric, turns: int, seed: int) -> Iterator[Certificate]:
    """Slices admitted to a crowded fabric, one after another; where there is no room a random one leaves."""
    rng, held = np.random.default_rng(seed), []
    for _ in range(turns):
        answer = allocate(occupied_by(fabric, held), int(rng.choice(SIZES)), "ocs-vclos")
        if answer.certificate is None:
            held.pop(int(rng.integers(len(held))))
            continue
        for number, again in answer.reissued:
            held[number] = again
        held.append(answer.certificate)
        yield answer.certificate


def rules() -> None:
    """Rules on the fullest switch, by size of the job."""
    fabric = load_fabric("ocs-vclos-512")
    inventory, worst = planned(fabric), dict[int, tuple[int, ...]]()
    for certificate in busy(fabric, 300, 3):
        if certificate.routing["rule"] != "by-class":
            continue
        gpus, leaf_of = len(certificate.rank_order), fabric.leaf_of_gpu[list(certificate.rank_order)]
        pairs: dict[int, int] = {}
        for one in certificate.circuits:
            pairs[one.spine] = pairs.get(one.spine, 0) + gpus - int((leaf_of == one.leaf).sum())
        devices = devices_of(certificate, inventory)
        counts = [
            max(kind.rules(one, spares=spares) for one in devices)
            for kind in FORMATS.values()
            for spares in (False, True)
        ]
        found = (max(pairs.values()), *counts)
        worst[gpus] = tuple(map(max, zip(worst.get(gpus, found), found, strict=True)))
    names = [f"{form}{' +spares' if spares else ''}" for form in FORMATS for spares in (False, True)]
    print("GPUs  " + "  ".join(["pairs", *names]))
    for gpus, found in sorted(worst.items()):
        print(
            f"{gpus:4}  "
            + "  ".join(f"{count:>{len(name)}}" for count, name in zip(found, ["pairs", *names], strict=True))
        )


def times() -> None:
    """Verifying one certificate of the whole fabric, every pair of ranks followed."""
    for name in ("vclos-512", "vclos-2048", "vclos-8192"):
        fabric = load_fabric(name)
        certificate = allocate(occupied_by(fabric), fabric.gpus, "vclos").certificate
        assert certificate
        content = json.loads(certificate.as_text())
        began = time.process_time()
        verdict = verify([(name, content)])[0]
        print(f"{name}: {verdict.isolation}, {time.process_time() - began:.2f} CPU s")


def main() -> None:
    """Both."""
    rules()
    times()


if __name__ == "__main__":
    main()
