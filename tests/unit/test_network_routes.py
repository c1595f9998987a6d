"""Routes: packets walked through the tables take the links that the certificate says, in every encoding and on every kind of fabric."""

import contextlib
import json
import shutil
import subprocess

import numpy as np
import pytest
from tests.hall import Hall
from tests.naive_certificates import Fabric, Job, Wrong
from tests.properties.test_network_damage import CASES, changed, originals
from tests.waiting import PATIENCE_S

from headway.errors import BadInput
from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.certificate import certificate_from
from headway.network.certificates.verify import verify
from headway.network.fabric.file import fabric_from
from headway.network.routes import linux
from headway.network.routes.plan import planned
from headway.network.routes.policies import devices_of
from headway.network.routes.render import FORMATS, render
from headway.sim.network_files import load_fabric


def follow(content):
    """Every pair of ranks, by tables and by policies; returns the number of flows that left their leaf."""
    certificate = certificate_from(content)
    inventory = planned(certificate.fabric)
    hall, job = Hall(certificate, inventory), Job(content, Fabric(content["fabric"]))
    each, crossed = certificate.fabric.gpus_per_server, 0
    for sender, gpu in enumerate(job.order):
        for receiver, other in enumerate(job.order):
            try:
                wanted = [use for use in job.way(sender, receiver) if not use[0][0].startswith("gpu")]
            except Wrong:
                continue  # not a pair of any pattern that is promised
            leaves_by = gpu // each * each + other % each if certificate.fabric.kind == "rail" else gpu
            if gpu // each == other // each or leaves_by not in job.order:
                continue  # inside a server, or by a NIC that the certificate does not promise to use
            for choose in (hall.by_tables, hall.by_policies, hall.by_single_policies):
                taken = hall.walk(choose, inventory.nics[leaves_by], inventory.nics[other].address)
                assert sorted(taken) == sorted(wanted), f"{sender} to {receiver}"
            crossed += bool(wanted)
    return crossed


@pytest.mark.parametrize("case", CASES)
def test_packets_take_the_links_of_the_certificate(case, rounds):
    """Also for forged certificates that the verifier accepts: what is verified is what is configured."""
    base = originals(case)
    crossed = sum(follow(one) for one in base)
    rng, accepted = np.random.default_rng(5), 0
    for _ in range(rounds(400, 6000)):
        content = changed(base[int(rng.integers(len(base)))], rng)
        if verify([("c", content)], base[0]["fabric"])[0].isolation != "rejected":
            accepted += 1
            with contextlib.suppress(BadInput):  # it may say no way for a pair that no promise is about
                crossed += follow(content)
    assert accepted > 10
    assert crossed > 100


def uneven(fabric, seed=3):
    """Certificates of a busy optical fabric, whose leaves are uneven: slices by classes of ranks."""
    rng, held = np.random.default_rng(seed), []
    for _ in range(60):
        answer = allocate(occupied_by(fabric, held), int(rng.choice([24, 40, 48, 64, 72, 80, 128])), "ocs-vclos")
        if answer.certificate is None:
            held.pop(int(rng.integers(len(held))))
            continue
        for number, again in answer.reissued:
            held[number] = again
        held.append(answer.certificate)
        yield answer.certificate


def test_classes_of_ranks_fit_a_switch():
    """By pairs of port and receiver they took more than 3,000 rules on one spine for 80 GPUs; now fewer than 255."""
    fabric = load_fabric("ocs-vclos-512")
    inventory, seen = planned(fabric), {}
    for certificate in uneven(fabric):
        if certificate.routing["rule"] != "by-class":
            continue
        gpus = len(certificate.rank_order)
        if not seen:
            assert follow(json.loads(certificate.as_text()))
        pairs = {}
        for spine in {one.spine for one in certificate.circuits}:
            ports = [one for one in certificate.circuits if one.spine == spine]
            pairs[spine] = sum(
                gpus - sum(fabric.leaf_of_gpu[list(certificate.rank_order)] == one.leaf) for one in ports
            )
        for device in devices_of(certificate, inventory):
            need = FORMATS["nvue"].rules(device, spares=False)
            assert need <= 255, f"{device.name}: {need} rules for {gpus} GPUs"
            seen[gpus] = max(seen.get(gpus, (0, 0)), (max(pairs.values()), need))
    assert max(before for before, _ in seen.values()) > 3000
    assert 80 in seen


def test_rules_are_counted_against_the_budget_of_the_switch():
    certificate = allocate(occupied_by(load_fabric("vclos-512")), 64, "vclos").certificate
    inventory = planned(certificate.fabric)
    text = render(certificate, inventory, "nvue")
    assert "# on leaf0 (leaf0): 96 of 255 policy rules" in text
    tight = render(certificate, inventory, "nvue", budget=70)
    assert "# on leaf0 (leaf0): 64 of 70 policy rules" in tight
    assert "# no spare next hops: with them it would be 96 rules" in tight
    assert tight.count("action nexthop-group") == 64
    with pytest.raises(
        Exception, match=r"does not fit: leaf0 \(leaf0\) needs 64 policy rules as nvue, and its budget is 32"
    ):
        render(certificate, inventory, "nvue", budget=32)
    counts = json.loads(render(certificate, inventory, "json", budget=32))["devices"][0]["counts"]
    assert (counts["nvue"]["rules"], counts["nvue"]["fits"], counts["linux"]["fits"]) == (64, False, True)


def test_slices_that_are_in_force_count_too():
    """Two jobs below the same leaves."""
    fabric = fabric_from({"leaves": 2, "servers_per_leaf": 4, "gpus_per_server": 4, "spines": 16}, "x")
    first = allocate(occupied_by(fabric), 20, "vclos").certificate
    second = allocate(occupied_by(fabric, [first]), 8, "vclos").certificate
    inventory = planned(fabric)
    assert "# on leaf0 (leaf0): 30 of 255 policy rules" in render(first, inventory, "nvue")
    text = render(second, inventory, "nvue", beside=[first])
    assert "# on leaf0 (leaf0): 12 of 255 policy rules" in text
    assert "# and 30 rules of slices in force" in text
    with pytest.raises(BadInput, match="needs 8 policy rules as nvue, and its budget is 32, of which 30 are used"):
        render(second, inventory, "nvue", beside=[first], budget=32)


@pytest.mark.parametrize("form", FORMATS)
def test_undo_names_everything_that_was_written(form):
    """Maps, lists, groups, routes and interfaces of the one text are those of the other."""
    fabric = load_fabric("ocs-vclos-512")
    optical = next(one for one in uneven(fabric) if one.routing["rule"] == "by-class")
    joined = next(one for one in uneven(fabric) if one.routing["rule"] == "direct")
    flat = allocate(occupied_by(load_fabric("superpod")), 512, "vclos").certificate
    for certificate in (optical, joined, flat):
        inventory = planned(certificate.fabric)
        there, back = (render(certificate, inventory, form, undo=undo, budget=10**6) for undo in (False, True))
        assert there == render(certificate, inventory, form, budget=10**6), "the same text every time"
        assert names(form, there)
        assert names(form, there) <= names(form, back), names(form, there) - names(form, back)


def names(form, text):
    """Everything that a text creates or removes, as the switch names it."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and line[0] not in "#!"]
    if form == "linux":
        rules = {
            line.split(" ", 1)[1].removeprefix("rule del ") for line in lines if line.startswith(("rule ", "gone rule"))
        }
        tables = {line.split()[-1] for line in lines if " table " in line}
        main = {line for line in lines if " route " in line and " table " not in line}
        return rules | tables | {line.split("route ")[1].removeprefix("replace ").removeprefix("del ") for line in main}
    if form == "sonic":
        return {line.split("'")[1] for line in lines}
    if form == "nvue":
        words = [line.split()[2:] for line in lines if line.startswith(("nv set", "nv unset")) and "enable" not in line]
        longest = {"router": 4, "interface": 5, "vrf": 5}  # how many words name a thing
        return {" ".join(one[: 2 if one[0] == "vrf" and one[1] != "default" else longest[one[0]]]) for one in words}
    if form == "eos":
        kinds = ("ip access-list", "class-map type", "policy-map type", "ip route", "service-policy type")
        return {line.removeprefix("no ") for line in lines if line.removeprefix("no ").startswith(kinds)}
    kinds = ("pbr-map", "ip route", "pbr-policy", "interface")
    return {line.removeprefix("no ") for line in lines if line.removeprefix("no ").startswith(kinds)}


@pytest.mark.parametrize("undo", [False, True])
def test_frr_takes_its_configuration(undo, tmp_path):
    """By FRR's own parser, without any daemon."""
    if not shutil.which("vtysh"):
        pytest.skip("SKIPPED: vtysh is not installed (package frr)")
    fabric = load_fabric("ocs-vclos-512")
    certificates = list(uneven(fabric))
    chosen = {one.routing["rule"]: one for one in certificates if one.circuits}
    assert {"by-class", "direct"} <= set(chosen)
    path = tmp_path / "frr.conf"
    for certificate in chosen.values():
        path.write_text(render(certificate, planned(fabric), "frr", undo=undo))
        done = subprocess.run(
            ["vtysh", "-C", "-f", path], capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_linux_refuses_interfaces_that_the_kernel_does():
    certificate = allocate(occupied_by(load_fabric("vclos-512")), 64, "vclos").certificate
    device = devices_of(certificate, planned(certificate.fabric))[0]
    assert linux.rules(device, spares=True) == 32
    with pytest.raises(Exception, match="Ethernet49/1/1/1/1 is no interface of Linux"):
        linux.check_interface("Ethernet49/1/1/1/1")


@pytest.mark.parametrize("case", ["leaf-spine", "lanes", "padded", "rail", "optical"])
def test_around_failed_links(case):
    """With one link of every leaf failed no packet crosses one, and all stay on links that the slice holds."""
    content = max(originals(case), key=lambda one: (one["routing"]["rule"] == "rank-mod", len(one["links"])))
    certificate = certificate_from(content)
    inventory, fabric = planned(certificate.fabric), certificate.fabric
    leaves = sorted({low for low, _ in certificate.links})
    by_leaf = {leaf: [link for link in certificate.links if link[0] == leaf] for leaf in leaves}
    failed = [by_leaf[leaf][at % 2] for at, leaf in enumerate(leaves)]
    hall = Hall(certificate, inventory, ["-".join(link) for link in failed])
    for gpu in certificate.rank_order:
        for other in certificate.rank_order:
            if gpu % fabric.rails != other % fabric.rails:
                continue  # on rails the other NIC of the server sends
            for choose in (hall.by_tables, hall.by_policies, hall.by_single_policies):
                taken = {link for link, _ in hall.walk(choose, inventory.nics[gpu], inventory.nics[other].address)}
                assert not taken & set(failed)
                assert taken <= set(certificate.links)
    switch = failed[0][1].split(".")[0]
    if len({high.split(".")[0] for _, high in by_leaf[leaves[0]]}) > 1:
        around = devices_of(certificate, inventory, [switch])
        lost = {
            hop.via
            for hop in hops(devices_of(certificate, inventory))
            if hop.via not in {one.via for one in hops(around)}
        }
        assert lost, "nothing goes by a switch that failed"
    with pytest.raises(BadInput, match="--failed leaf9-spine9: not a link of this slice"):
        devices_of(certificate, inventory, ["leaf9-spine9"])
    with pytest.raises(BadInput, match="no link of this slice is left between"):
        devices_of(certificate, inventory, ["-".join(link) for link in by_leaf[leaves[0]]])


def hops(devices):
    """The ways out of leaves that are used while no further link fails."""
    return [
        way.hop for device in devices if device.name.startswith("leaf") for table in device.tables for way in table.ways
    ]


def test_around_failed_links_every_spare_has_a_steering_address_of_its_own():
    """EOS: one uplink has another spare to the leaf whose link failed; both under one address would share that traffic."""
    fabric = fabric_from({"leaves": 3, "servers_per_leaf": 1, "gpus_per_server": 4, "spines": 4}, "x")
    certificate = allocate(occupied_by(fabric), 12, "vclos").certificate
    failed = ["leaf1-spine1"]
    text = render(certificate, planned(fabric), "eos", switch="leaf0", failed=failed)
    lines = [line.split() for line in text.splitlines() if line.startswith("ip route ")]
    ways = {(target, distance): (interface, via) for _, _, target, interface, via, distance in lines}
    assert len(ways) == len(lines), "no address has two ways of one distance"
    first = {target for (target, distance), (interface, _) in ways.items() if (interface, distance) == ("up0", "1")}
    assert {ways[target, "2"][0] for target in first} == {"up1", "up2"}, "up2 to leaf1, up1 to leaf2"
    back = render(certificate, planned(fabric), "eos", switch="leaf0", failed=failed, undo=True)
    assert names("eos", text) <= names("eos", back)
    assert "\nconfigure session\n" in text, "of no name: one that was committed is not entered again"


@pytest.mark.parametrize("form", FORMATS)
def test_the_way_back_needs_no_room(form):
    """A budget that was made smaller, or filled by others since, does not keep anybody from undoing."""
    certificate = allocate(occupied_by(load_fabric("vclos-512")), 64, "vclos").certificate
    inventory = planned(certificate.fabric)
    with pytest.raises(BadInput, match="does not fit"):
        render(certificate, inventory, form, budget=1)
    assert render(certificate, inventory, form, budget=1, undo=True) == render(certificate, inventory, form, undo=True)
