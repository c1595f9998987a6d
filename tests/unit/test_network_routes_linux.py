"""The linux routes in a real kernel: applied in a network namespace, every flow leaves by the port it should."""

import json
import os
import shutil
import subprocess

import pytest

from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.routes import leaf_net, lower_address, nic_address, render, rules_of, upper_address
from headway.network.fabric.file import fabric_from

LANES = {"leaves": 3, "servers_per_leaf": 1, "gpus_per_server": 4, "spines": 2, "parallel_links": 2}


def ip(*words, namespace=None):
    command = ["ip", *(["-n", namespace] if namespace else []), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout


@pytest.fixture
def namespace():
    """An empty network namespace, or a loud skip where there is no right to make one."""
    if not shutil.which("ip") or os.geteuid() != 0:
        pytest.skip("SKIPPED: network namespaces need root and iproute2")
    name = f"headway-test-{os.getpid()}"
    try:
        ip("netns", "add", name)
        ip("link", "add", "probe0", "type", "veth", "peer", "name", "probe1", namespace=name)
    except subprocess.CalledProcessError as error:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        pytest.skip(f"SKIPPED: no network namespaces here: {error.stderr.strip()}")
    yield name
    ip("netns", "del", name)


def port(name, namespace, address=None):
    """An interface that is up, its other end in the same namespace."""
    ip("link", "add", name, "type", "veth", "peer", "name", f"x{name}", namespace=namespace)
    if address:
        ip("addr", "add", address, "dev", name, namespace=namespace)
    for end in (name, f"x{name}"):
        ip("link", "set", end, "up", namespace=namespace)


def commands_of(text, switch):
    """The `ip` lines below `# on <switch>`."""
    lines = text.split(f"# on {switch}\n")[1].split("\n#")[0].splitlines()
    return [line.split()[1:] for line in lines if line.startswith("ip ")]


def way(namespace, source, target, incoming):
    answer = json.loads(ip("-j", "route", "get", target, "from", source, "iif", incoming, namespace=namespace))
    return answer[0]["dev"]


def forward(namespace):
    subprocess.run(
        ["ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0"],
        check=True, capture_output=True, timeout=20,
    )  # fmt: skip


def test_a_leaf_sends_every_rank_by_its_own_link(namespace):
    certificate = allocate(occupied_by(fabric_from(LANES, "x")), 8, "vclos").certificate
    for uplink in range(4):
        port(f"up{uplink}", namespace, f"{lower_address(0, uplink)}/31")
    port("nics", namespace, f"{nic_address(0, 100)}/24")
    forward(namespace)
    for words in commands_of(render(certificate, "linux"), "leaf0"):
        ip(*words, namespace=namespace)
    wanted = {rule.source.split("/")[0]: rule.port for rule in rules_of(certificate) if rule.switch == "leaf0"}
    taken = {source: way(namespace, source, nic_address(1, 0), "nics") for source in wanted}
    assert taken == wanted
    assert sorted(taken.values()) == ["up0", "up1", "up2", "up3"]
    assert way(namespace, nic_address(0, 0), nic_address(0, 1), "nics") == "nics", "neighbours stay below the leaf"


def test_a_spine_keeps_the_lane(namespace):
    certificate = allocate(occupied_by(fabric_from(LANES, "x")), 8, "vclos").certificate
    for leaf in (0, 1):
        for lane in (0, 1):
            port(f"down{leaf}.{lane}", namespace, f"{upper_address(leaf, lane)}/31")
    forward(namespace)
    for words in commands_of(render(certificate, "linux"), "spine0"):
        ip(*words, namespace=namespace)
    for lane in (0, 1):
        assert way(namespace, nic_address(0, lane), nic_address(1, 3), f"down0.{lane}") == f"down1.{lane}"
        assert way(namespace, nic_address(1, lane), nic_address(0, 3), f"down1.{lane}") == f"down0.{lane}"
    assert leaf_net(1) == "10.64.1.0/24"
