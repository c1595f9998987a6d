"""The network at one moment of a run: links that jobs have for themselves, or share, and circuits through optical switches."""

from typing import Any

import numpy as np

from headway.core.events import PACK, START
from headway.live.fabric.served import ServedFabric
from headway.live.fabric.slices import Slice
from headway.live.queries.answers import Circuit, NetworkView, Uplink
from headway.live.queries.story import bits
from headway.network.fabric.model import Fabric
from headway.network.sharing.steps import STEP, steps_on
from headway.network.sharing.uses import record_uses
from headway.player.film import FilmFrame
from headway.player.scenes import job_views
from headway.sim.models import communication
from headway.sim.models.communication import MOST_STEPS
from headway.sim.models.contention import Holders, shared_links

WORDS = {
    "ideal": "an ideal network: nobody shares a link",
    "isolated": "links are reserved: no two jobs share one",
    "ecmp": "flows choose links by hash (ECMP), and may meet",
    "balanced": "flows are balanced over links",
    "source": "links follow from the sender",
    "spray": "packets are sprayed over all links",
}


def network(frame: FilmFrame) -> NetworkView:
    """Switches, links and circuits, with the jobs on them."""
    run = frame.film.run
    fabric, rule = run.setting.network.fabric, run.setting.network.sharing.rule
    jobs = job_views(frame, frame.on_gpus)
    if fabric is None:
        return NetworkView(frame.time, "none", run.cluster.name, WORDS["ideal"], (), 0, (), (), jobs)
    leaves: list[list[str]] = [[] for _ in range(fabric.leaves)]
    for node, leaf in zip(run.cluster.nodes, fabric.server_group, strict=True):
        leaves[leaf].append(node)
    own_links = () if fabric.ocs else _given(frame)
    circuits = _circuits(frame, fabric) if fabric.ocs else ()
    links = own_links if own_links or not run.setting.network.sharing.is_shared else _shared(frame, fabric)
    words = WORDS["isolated"] if own_links or circuits else WORDS.get(rule, rule)
    kind = f"{fabric.kind} with optical switches" if fabric.ocs else fabric.kind
    return NetworkView(
        frame.time, kind, fabric.name, words, tuple(map(tuple, leaves)), fabric.uplinks, links, circuits, jobs
    )


def _given(frame: FilmFrame) -> tuple[Uplink, ...]:
    """Links that starts were given; behind optical switches these are ports, which `_circuits` tells of."""
    links = [Uplink(leaf, spine, (j + 1,), True) for j, leaf, mask in _held(frame) for spine in bits(mask)]
    return tuple(sorted(links, key=lambda link: (link.leaf, link.spine)))


def _held(frame: FilmFrame) -> list[tuple[int, int, int]]:
    """(job, leaf, mask) of all holds."""
    film, links = frame.film, []
    for row in frame.on.tolist():
        j = int(film.held.job[row])
        rows = film.rows_of(j, frame.time)
        starts = rows[np.isin(film.entries["kind"][rows], (START, PACK))]
        if len(starts):
            links += [(j, leaf, mask) for leaf, mask in film.links_of(int(starts[-1]))]
    return links


def _circuits(frame: FilmFrame, fabric: Fabric) -> tuple[Circuit, ...]:
    """Circuits: a leaf's fibre of a job meets a spine's port of the same job, through the same switch where it can.

    The ledger counts ports and gives them no identity (decision 0036), so which meets which is one way to wire it, not the only one.
    """
    assert fabric.ocs is not None
    fibres: dict[int, list[tuple[int, int]]] = {}  # by job: (switch, leaf)
    ports: dict[int, list[tuple[int, int]]] = {}  # by job: (switch, spine)
    for j, row, mask in _held(frame):
        below = row < fabric.leaves
        switch_of = row if below else (row - fabric.leaves) // fabric.ocs.spine_fibres
        (fibres if below else ports).setdefault(j, []).extend((switch, switch_of) for switch in bits(mask))
    circuits = []
    for j, own in fibres.items():
        free_ports = sorted(ports.get(j, []), reverse=True)
        for switch, leaf in sorted(own):
            same = next((port for port in free_ports if port[0] == switch), free_ports[-1] if free_ports else None)
            if same is not None:
                free_ports.remove(same)
            circuits.append(Circuit(switch, leaf, same[1] if same else -1, j + 1))
    return tuple(circuits)


def slice_of(frame: FilmFrame, j: int) -> dict[str, Any] | None:
    """What a job holds of the fabric, in the shape that a manager gives; circuits move when others come, and have no certificate here."""
    fabric, film = frame.film.run.setting.network.fabric, frame.film
    hold = frame.hold_of.get(j)
    if fabric is None or fabric.ocs or not film.run.placement.needs_fabric or hold is None:
        return None
    links = tuple((leaf, mask) for held, leaf, mask in _held(frame) if held == j)
    certificate = ServedFabric(fabric).certificate(tuple(frame.gpus_of(hold).tolist()), links)
    return Slice(certificate, certificate.as_text(), "").view()


def _shared(frame: FilmFrame, fabric: Fabric) -> tuple[Uplink, ...]:
    """Links that the flows of jobs take by the rule of the network; `load` adds up the fullest steps of each job."""
    run, film = frame.film.run, frame.film
    holders = Holders(2 if run.policy.packs else 1)
    traffic = communication.draw(run.workload, run.setting.seed)
    duration_s, sharing = run.workload.duration_s, run.setting.network.sharing
    links = shared_links(sharing, fabric, traffic, duration_s, run.setting.seed, holders)
    most: dict[tuple[int, int], int] = {}  # (cable, job): flows of the fullest step, in either direction
    for row in frame.on.tolist():
        j, order = int(film.held.job[row]), frame.gpus_of(row)
        if len(set(fabric.leaf_of_gpu[order].tolist())) < 2:
            continue
        steps, head = np.empty(MOST_STEPS, STEP), links.head[0]
        count = steps_on(links.jobs[j]["pattern"], order, head["server"], head["ratio"], steps)
        record_uses(links, j, order, steps[:count])
        stage = int(links.jobs[j]["first_stage"])
        while stage >= 0:
            use = int(links.stages[stage]["first_use"])
            while use >= 0:
                key = (int(links.uses[use]["link"]) // 2, j)
                most[key] = max(most.get(key, 0), int(links.uses[use]["flows"]))
                use = int(links.uses[use]["next"])
            stage = int(links.stages[stage]["next"])
    on: dict[int, list[tuple[int, int]]] = {}
    for (cable, j), flows in most.items():
        on.setdefault(cable, []).append((j + 1, flows))
    pairs = int(run.setting.network.sharing.queue_pairs)
    return tuple(
        Uplink(
            *divmod(cable, fabric.uplinks),
            tuple(sorted(job for job, _ in users)),
            False,
            -(-sum(n for _, n in users) // pairs),
        )
        for cable, users in sorted(on.items())
        if cable < fabric.leaves * fabric.uplinks
    )
