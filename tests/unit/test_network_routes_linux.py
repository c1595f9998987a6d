"""The linux routes in a real kernel: every switch a network namespace, applied twice, followed by packets, failed over, undone twice."""

import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import threading

import pytest
from tests.hall import Hall
from tests.naive_certificates import Fabric, Job
from tests.properties.test_network_damage import CASES, originals
from tests.waiting import PATIENCE_S, wait_for

from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.certificate import certificate_from
from headway.network.fabric.file import fabric_from
from headway.network.routes.plan import planned
from headway.network.routes.render import render

LANES = {"leaves": 3, "servers_per_leaf": 1, "gpus_per_server": 4, "spines": 2, "parallel_links": 2}
GATEWAY = "169.254.1.1"  # what hosts take for their router; every leaf answers to it
SYSCTL = shutil.which("sysctl", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
SETTINGS = (
    "ip_forward=1",
    "conf.all.rp_filter=0",
    "conf.default.rp_filter=0",
    "conf.all.ignore_routes_with_linkdown=1",
)


def ip(*words, namespace=None, text=None):
    command = ["ip", *(["-n", namespace] if namespace else []), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S, input=text).stdout


class Lab:
    """Namespaces for the switches of a slice, and for its hosts if packets are to be sent."""

    def __init__(self, certificate, hosts):
        self.certificate, self.inventory = certificate, planned(certificate.fabric)
        self.hall = Hall(certificate, self.inventory)
        self.made = []
        self.hosts = {gpu: self.inventory.nics[gpu] for gpu in certificate.rank_order}
        self.with_hosts = hosts

    def name(self, what):
        return f"hw{os.getpid()}-{what}"

    def build(self):
        switches = sorted(
            {name for name, _ in self.hall.ends} | {self.hall.leaf_of[nic.address] for nic in self.hosts.values()}
        )
        guests = [f"h{gpu}" for gpu in self.hosts] if self.with_hosts else ["stubs"]
        for one in (*switches, *guests):
            ip("netns", "add", self.name(one))
            self.made.append(one)
        links = []
        for (here, out), (there, arrives, *_) in self.hall.ends.items():
            if (here, out) < (there, arrives):
                peer = f"peer name {arrives} netns {self.name(there)}"
                links.append(f"link add {out} netns {self.name(here)} type veth {peer}")
        for gpu, nic in self.hosts.items():
            guest = f"eth0 netns {self.name(f'h{gpu}')}" if self.with_hosts else f"h{gpu} netns {self.name('stubs')}"
            links.append(
                f"link add {nic.port} netns {self.name(self.hall.leaf_of[nic.address])} type veth peer name {guest}"
            )
        ip("-batch", "-", text="\n".join(links) + "\n")
        for one in switches:
            set_words = [f"net.ipv4.{setting}" for setting in SETTINGS]
            subprocess.run(
                ["ip", "netns", "exec", self.name(one), SYSCTL, "-qw", *set_words], check=True, timeout=PATIENCE_S
            )
            ip("-batch", "-", namespace=self.name(one), text="\n".join(self.normal(one)) + "\n")
        if self.with_hosts:
            for gpu, nic in self.hosts.items():
                lines = [f"addr add {nic.address}/32 dev eth0", "link set eth0 up", f"route add {GATEWAY} dev eth0"]
                ip(
                    "-batch",
                    "-",
                    namespace=self.name(f"h{gpu}"),
                    text="\n".join([*lines, f"route add default via {GATEWAY}"]) + "\n",
                )
        else:
            ip(
                "-batch",
                "-",
                namespace=self.name("stubs"),
                text="\n".join(f"link set h{gpu} up" for gpu in self.hosts) + "\n",
            )
        self.wait_for_links()

    def wait_for_links(self):
        """Return when every switch takes its links for up: a kernel tells its routes some time after the link came up."""
        wait_for(lambda: "linkdown" not in str(self.state()), self.state)

    def normal(self, switch):
        """Addresses, and the routes that a switch has without us: down where it is known, else up by all ways."""
        lines, down, up = [], {}, []
        for (here, out), (there, _, mine, theirs) in self.hall.ends.items():
            if here != switch:
                continue
            own, far = self.address(here, out, mine), self.address(there, None, theirs)
            length = 32 if self.certificate.fabric.ocs else 31  # circuits join ports that share no subnet
            lines += [f"addr add {own}/{length} dev {out}", f"link set {out} up"]
            hop = f"nexthop via {far} dev {out} onlink"
            if there.startswith("leaf") and not here.startswith("leaf"):
                down.setdefault(there, []).append(hop)
            elif here.startswith("core"):
                pod = int(there.split(".")[0].removeprefix("agg"))
                for leaf, its in enumerate(self.certificate.fabric.leaf_pod):
                    if its == pod:
                        down.setdefault(f"leaf{leaf}", []).append(hop)
            else:
                up.append(hop)
        for nic in self.hosts.values():
            if self.hall.leaf_of[nic.address] == switch:
                lines += [
                    f"addr add {GATEWAY}/32 dev {nic.port}",
                    f"link set {nic.port} up",
                    f"route add {nic.address}/32 dev {nic.port}",
                ]
        for leaf, hops in down.items():
            lines.append(f"route add {self.inventory.prefix(leaf)} {' '.join(hops)}")
        return [*lines, *([f"route add default {' '.join(up)}"] if up else [])]

    def address(self, switch, _, cable):
        """The address of a switch's end of a cable, as the plan has it."""
        found = self.inventory.cables[cable]
        if found.upper is None:
            if switch.startswith("leaf"):
                return found.lower.address
            spine = next(one for one in self.certificate.circuits if (f"leaf{one.leaf}", f"ocs{one.ocs}") == cable)
            return self.inventory.cables[f"spine{spine.spine}.{spine.fibre}", f"ocs{spine.ocs}"].lower.address
        return (found.lower if cable[0] == switch else found.upper).address

    def run(self, *, undo, failed=()):
        """The text for every switch, each through a shell in its namespace."""
        for name in self.hall.devices:
            text = render(self.certificate, self.inventory, "linux", undo=undo, switch=name, failed=failed)
            done = subprocess.run(
                ["ip", "netns", "exec", self.name(name), "sh"],
                input=text,
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S,
            )
            assert (done.returncode, done.stderr) == (0, ""), f"{name}: {done.stderr}"

    def state(self):
        """Rules and routes of every switch."""
        found = {}
        for name in self.hall.devices:
            routes = ip("-4", "route", "show", "table", "all", namespace=self.name(name)).splitlines()
            found[name] = (ip("rule", "show", namespace=self.name(name)), sorted(routes))
        return found

    def lookup(self, switch, source, target, arrives):
        """What the kernel would do with a packet."""
        answer = ip("-j", "route", "get", target, "from", source, "iif", arrives, namespace=self.name(switch))
        return json.loads(answer)[0]["dev"]

    def close(self):
        for one in self.made:
            subprocess.run(["ip", "netns", "del", self.name(one)], capture_output=True, check=False, timeout=PATIENCE_S)


@contextlib.contextmanager
def lab(certificate, *, hosts=False):
    """A lab, or a loud skip where there is no right to make one."""
    if not shutil.which("ip") or not SYSCTL or os.geteuid() != 0:
        pytest.skip("SKIPPED: network namespaces need root, iproute2 and sysctl")
    probe = f"hw{os.getpid()}-probe"
    try:
        ip("netns", "add", probe)
        ip("link", "add", "probe0", "type", "veth", "peer", "name", "probe1", namespace=probe)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"SKIPPED: no network namespaces here: {error.stderr.strip()}")
    finally:
        subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False, timeout=PATIENCE_S)
    built = Lab(certificate, hosts)
    try:
        built.build()
        yield built
    finally:
        built.close()


def follow(built):
    """Every pair of ranks, switch by switch, as the kernel looks it up."""
    content = json.loads(built.certificate.as_text())
    job = Job(content, Fabric(content["fabric"]))
    flows = 0
    for sender, gpu in enumerate(job.order):
        for receiver, other in enumerate(job.order):
            if job.leaf[sender] == job.leaf[receiver]:
                continue
            taken = built.hall.walk(built.lookup, built.inventory.nics[gpu], built.inventory.nics[other].address)
            assert sorted(taken) == sorted(job.way(sender, receiver)), f"{sender} to {receiver}"
            flows += 1
    return flows


def optical(gpus, rule):
    content = next(one for one in originals("optical") if (len(one["gpus"]), one["routing"]["rule"]) == (gpus, rule))
    return certificate_from(content)


def sliced(fabric, gpus):
    return allocate(occupied_by(fabric_from(fabric, "x")), gpus, "vclos").certificate


@pytest.mark.parametrize(
    "certificate",
    [
        lambda: sliced(LANES, 8),
        lambda: sliced(CASES["pods"][0], 8),
        lambda: optical(10, "direct"),
        lambda: optical(20, "by-class"),
        lambda: optical(24, "rank-mod"),
    ],
    ids=["lanes", "pods", "direct", "by-class", "rank-mod"],
)
def test_applied_twice_followed_and_undone_twice(certificate):
    with lab(certificate()) as built:
        before = built.state()
        built.run(undo=False)
        once = built.state()
        assert once != before
        assert follow(built) > 10
        built.run(undo=False)
        assert built.state() == once, "applying again changes nothing"
        built.run(undo=True)
        assert built.state() == before, "the way back leads where it began"
        built.run(undo=True)
        assert built.state() == before


def test_around_a_failed_uplink_in_the_kernel():
    """Twice, looked up for every pair of ranks, and undone: nothing takes the failed link, and everything stays on links of the slice."""
    certificate = sliced({"leaves": 3, "servers_per_leaf": 1, "gpus_per_server": 4, "spines": 4}, 12)
    lost, order = ("leaf1", "spine1"), certificate.rank_order
    with lab(certificate) as built:
        before = built.state()
        built.run(undo=False, failed=["leaf1-spine1"])
        once = built.state()
        built.run(undo=False, failed=["leaf1-spine1"])
        assert built.state() == once != before
        flows = 0
        for gpu in order:
            for other in order:
                nic, there = built.inventory.nics[gpu], built.inventory.nics[other].address
                if built.hall.leaf_of[nic.address] != built.hall.leaf_of[there]:
                    taken = {link for link, _ in built.hall.walk(built.lookup, nic, there)}
                    assert len(taken) == 2
                    assert lost not in taken
                    assert taken <= set(certificate.links)
                    flows += 1
        assert flows == 96
        built.run(undo=True, failed=["leaf1-spine1"])
        assert built.state() == before


def in_namespace(name, make):
    """What `make` returns, called in another network namespace by a thread of its own: sockets stay where they were made."""
    found = []

    def work():
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{name}") as there:
            assert libc.setns(there.fileno(), 0x40000000) == 0, os.strerror(ctypes.get_errno())
            found.append(make())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


def open_socket(address):
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((address, 4791))  # RoCEv2
    return made


def sent(built, leaf):
    """Packets that left by each uplink of a leaf."""
    listed = json.loads(ip("-s", "-j", "link", "show", namespace=built.name(leaf)))
    return {one["ifname"]: one["stats64"]["tx"]["packets"] for one in listed if one["ifname"].startswith("up")}


def test_packets_stay_on_their_links_and_move_to_the_spare_when_one_fails():
    certificate = sliced(LANES, 8)
    with lab(certificate, hosts=True) as built:
        built.run(undo=False)
        sockets = {
            gpu: in_namespace(built.name(f"h{gpu}"), lambda nic=nic: open_socket(nic.address))
            for gpu, nic in built.hosts.items()
        }
        try:
            first, *others = certificate.rank_order
            there = [
                gpu for gpu in others if certificate.fabric.leaf_of_gpu[gpu] != certificate.fabric.leaf_of_gpu[first]
            ]

            def exchange(tries=1):
                for gpu in there:
                    for end in (first, gpu):  # a packet that is sent again may be lost
                        sockets[end].settimeout(0.5 if tries > 1 else PATIENCE_S)
                    for _ in range(tries):
                        with contextlib.suppress(TimeoutError):
                            sockets[first].sendto(b"there", (built.hosts[gpu].address, 4791))
                            _, back = sockets[gpu].recvfrom(100)
                            sockets[gpu].sendto(b"back", back)
                            assert sockets[first].recv(100) == b"back"
                            break
                    else:
                        raise AssertionError(f"nothing came back from GPU {gpu}")

            leaf = built.hall.leaf_of[built.hosts[first].address]
            exchange(tries=100)  # neighbours learn each other's addresses
            counted = sent(built, leaf)
            for _ in range(20):
                exchange()
            more = {name: count - counted[name] for name, count in sent(built, leaf).items()}
            own = certificate.routing["spines"][0]
            assert more[f"up{own}"] >= 20 * len(there)
            assert sum(more.values()) - more[f"up{own}"] < 20, f"only the odd packet of others: {more}"
            ip("link", "set", f"up{own}", "down", namespace=built.name(leaf))
            exchange(tries=100)  # the kernel takes up to a second to tell the other end
            spare = certificate.routing["spines"][1]
            assert sent(built, leaf)[f"up{spare}"] > counted[f"up{spare}"]
            taken = built.lookup(
                leaf, built.hosts[first].address, built.hosts[there[0]].address, built.hosts[first].port
            )
            assert taken == f"up{spare}"
            ip("link", "set", f"up{own}", "up", namespace=built.name(leaf))
            built.wait_for_links()
            built.run(undo=False)
            assert follow(built) == 32, "applied again, everything is as it was"
            built.run(undo=True)
        finally:
            for one in sockets.values():
                one.close()
