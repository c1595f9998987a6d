"""The slice of an attempt on a fabric: a signed certificate, the routes that enforce it, and a collective plan.

All follow from the places and links in the journal, so every manager computes the same, also after a crash.
"""

import json
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from headway.collectives.plan import plan_to_json
from headway.collectives.schedulers import DEFAULT_CHUNKS, schedule
from headway.collectives.topology.model import Dimension, DimensionKind, Topology
from headway.errors import BadInput
from headway.live.fabric.served import Links, ServedFabric
from headway.live.jobfile.spec import JobSpec
from headway.network.certificates.certificate import Certificate
from headway.network.certificates.signature import fingerprint, key_in
from headway.network.fabric.model import Fabric
from headway.network.routes.plan import planned
from headway.network.routes.render import render

CERTIFICATE, ROUTES, UNDO, PLAN = "certificate.json", "routes.sh", "routes-undo.sh", "plan.json"


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of the fabric that one attempt holds."""

    certificate: Certificate | None  # None: it shares links with other jobs
    text: str  # of the certificate, signed
    plan: str  # of its collectives, as JSON; empty: none was asked for, or there is nothing to plan

    def view(self) -> dict[str, Any]:
        """Return the slice as the API and `headway show` give it."""
        content = json.loads(self.text) if self.text else {"links": [], "routing": {}, "patterns": []}
        return {
            "isolated": self.certificate is not None,
            "links": content["links"],
            "routing": content["routing"],
            "patterns": content["patterns"],
            "signed_by": fingerprint(key_in(content["signature"])) if "signature" in content else None,
            "certificate": content if self.text else None,
            "plan": json.loads(self.plan) if self.plan else None,
        }


def slice_of(served: ServedFabric, spec: JobSpec, gpus: tuple[int, ...], links: Links) -> Slice:
    """Return the slice of a job on these GPUs, in the order of ranks, with these links."""
    network = own_network(served.fabric, gpus)
    asked = spec.collective.schedule
    plan = _plan(network, asked, int(spec.collective.size)) if network and asked != "none" else ""
    if not links and served.spans(gpus):
        return Slice(None, "", plan)
    certificate = served.certificate(gpus, links)
    return Slice(certificate, certificate.as_text(served.key), plan)


def files_of(served: ServedFabric, slice_of_job: Slice) -> dict[str, str]:
    """Return files for an attempt's folder by name: the certificate, scripts for its routes, and the plan."""
    files = {PLAN: slice_of_job.plan} if slice_of_job.plan else {}
    if slice_of_job.certificate is None:
        return files
    inventory = served.inventory or planned(served.fabric)
    files[CERTIFICATE] = slice_of_job.text
    for name, undo in ((ROUTES, False), (UNDO, True)):
        try:
            files[name] = render(slice_of_job.certificate, inventory, "linux", undo=undo)
        except BadInput as error:  # an inventory that lacks something: the job runs, and the file says what is missing
            files[name] = f"# {error}\nexit 1\n"
    return files


def own_network(fabric: Fabric, gpus: tuple[int, ...]) -> Topology | None:
    """Return the network of a job alone: inside its servers, and between them with a NIC and a link for every GPU.

    If the GPUs are spread unevenly, it is one network at the speed of the NICs. None: the job has one GPU.
    """
    by_server = Counter(gpu // fabric.gpus_per_server for gpu in gpus)
    each, even = len(gpus) // len(by_server), len(set(by_server.values())) == 1
    inside = Dimension(DimensionKind.SWITCH, each, fabric.server_gbps) if even and each > 1 else None
    across = len(by_server) if even else len(gpus)
    between = Dimension(DimensionKind.SWITCH, across, fabric.link_gbps) if across > 1 else None
    dimensions = tuple(dimension for dimension in (inside, between) if dimension)
    return Topology("slice", dimensions) if dimensions else None


@lru_cache(256)
def _plan(network: Topology, scheduler: str, size_bytes: int) -> str:
    """Return the plan of an all-reduce as JSON; jobs of the same shape share it."""
    chunks = min(DEFAULT_CHUNKS, size_bytes)
    return plan_to_json(schedule(network, size_bytes, scheduler=scheduler, chunks=chunks).plan)


def prepare_planning() -> None:
    """Compile the code for collective plans, so that no job waits for it."""
    network = Topology("small", (Dimension(DimensionKind.SWITCH, 2, 100.0), Dimension(DimensionKind.SWITCH, 2, 100.0)))
    for scheduler in ("themis", "best"):
        _plan(network, scheduler, 1 << 20)
