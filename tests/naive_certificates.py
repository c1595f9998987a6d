"""A naive checker of certificates: plain loops over every flow of every step, links by their names, no NumPy, nothing of Headway.

The verifier is compared with it over thousands of changed certificates. It is slow and says little, so that it can be read in one go.
"""

import hashlib
import json
import re
from collections import Counter

LOOKED_AT = ("ring", "halving-doubling", "all-to-all", "pipeline")
FABRIC = {"name", "kind", "servers_on_leaf", "gpus_per_server", "spines", "parallel_links", "link_gbps", "server_gbps"}
PARTS = {"version", "fabric", "gpus", "rank_order", "links", "circuits", "routing", "patterns", "digest"}


class Wrong(Exception):
    """The certificate is no good."""


class NoSuchPattern(Wrong):
    """The pattern does not exist for so many ranks."""


def need(condition, what="wrong"):
    if not condition:
        raise Wrong(what)


def whole(value, low, high):
    """An integer of the range; True is none."""
    return type(value) is int and low <= value <= high


def judge(content, real=None):
    """`rejected`, `partial` or `full`, and for every pattern looked at (most flows on a link, all its links held)."""
    try:
        check_form(content)
        fabric = Fabric(content["fabric"])
        if real is not None:
            need(fabric.facts == Fabric(real).facts, "another fabric")
        held = check_holdings(content, fabric)
        job = Job(content, fabric)
        found = {}
        for name in [*content["patterns"], *LOOKED_AT]:
            try:
                loads = job.loads(name)
            except Wrong as wrong:
                need(name not in content["patterns"], "a promised pattern cannot be followed")
                if not isinstance(wrong, NoSuchPattern):
                    found[name] = (0, False)
                continue
            most = max((max(step.values()) for step in loads if step), default=0)
            used = {link for step in loads for link, _ in step}
            found[name] = (most, used <= held)
            need(name not in content["patterns"] or (most <= 1 and used <= held), "a promise is not kept")
        return ("full" if all(one[0] <= 1 and one[1] for one in found.values()) else "partial"), found
    except Wrong:
        return "rejected", {}


def check_form(content):
    """Types, ranges, digest."""
    need(type(content) is dict and set(content) in (PARTS, PARTS | {"signature"}))
    need(content.get("signature") is None)  # these tests sign nothing
    need(whole(content["version"], 1, 1))
    for name, least in (("gpus", 1), ("rank_order", 0), ("links", 0), ("circuits", 0), ("patterns", 1)):
        need(type(content[name]) is list and len(content[name]) >= least)
    need(all(whole(gpu, 0, 2**20 - 1) for name in ("gpus", "rank_order") for gpu in content[name]))
    need(len(content["gpus"]) <= 2**15 and len(content["rank_order"]) <= 2**15 and len(content["patterns"]) <= 32)
    need(
        all(
            type(name) is str and re.fullmatch(r"[a-z-]{1,32}(:[1-9][0-9]{0,6})?", name) for name in content["patterns"]
        )
    )
    for link in content["links"]:
        need(type(link) is list and len(link) == 2 and all(type(end) is str for end in link))
    for one in content["circuits"]:
        need(type(one) is dict and {"ocs", "leaf"} <= set(one) <= {"ocs", "leaf", "spine", "fibre", "other_leaf"})
        need(all(whole(number, 0, 2**16 - 1) for number in one.values()))
    check_fabric(content["fabric"])
    check_routing(content["routing"], content["fabric"])
    rest = {key: value for key, value in content.items() if key not in ("digest", "signature")}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    need(content["digest"] == "sha256:" + hashlib.sha256(text.encode()).hexdigest())


def check_fabric(fabric):
    need(type(fabric) is dict and FABRIC <= set(fabric) <= FABRIC | {"leaf_pod", "cores_per_group", "ocs"})
    name, kind = fabric["name"], fabric["kind"]
    need(type(name) is str and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,63}", name))
    need(type(kind) is str and kind in ("leaf-spine", "rail", "three-tier"))
    on_leaf, pods = fabric["servers_on_leaf"], fabric.get("leaf_pod", [])
    for several in (on_leaf, pods):
        need(type(several) is list and len(several) <= 2**16 and all(whole(one, 0, 2**16 - 1) for one in several))
    need(on_leaf and on_leaf[-1] > 0)
    need(all(whole(fabric[field], 1, 2**16) for field in ("gpus_per_server", "spines")))
    need(whole(fabric["parallel_links"], 1, 64))
    for field in ("link_gbps", "server_gbps"):
        need(type(fabric[field]) in (int, float) and 0 < fabric[field] <= 1e9)
    cores, ocs = fabric.get("cores_per_group", 0), fabric.get("ocs")
    need(whole(cores, 0, 2**16))
    if ocs is not None:
        need(type(ocs) is dict and set(ocs) == {"switches", "spine_fibres"})
        need(whole(ocs["switches"], 1, 64) and whole(ocs["spine_fibres"], 1, 2**16))
        need(kind == "leaf-spine" and fabric["parallel_links"] == 1)
    leaves = len(on_leaf) * (fabric["gpus_per_server"] if kind == "rail" else 1)
    uplinks = ocs["switches"] if ocs else fabric["spines"] * fabric["parallel_links"]
    need(sum(on_leaf) * fabric["gpus_per_server"] <= 2**20 and leaves <= 2**16 and uplinks <= 64)
    need(leaves * uplinks + (max(pods, default=0) + 1) * uplinks * cores <= 2**22)
    if kind == "three-tier":
        need(len(pods) == leaves and max(pods) < leaves and cores >= 1)
    else:
        need(not pods and not cores)


def check_routing(routing, fabric):
    need(type(routing) is dict and type(routing.get("rule")) is str)
    says, rule = set(routing) - {"rule"}, routing["rule"]
    if fabric.get("ocs"):
        rules = {"none": [], "rank-mod": ["modulus", "fibres"], "by-member": ["fibres"]}
        rules |= {"by-class": ["fibres", "modulus"], "direct": ["fibres", "near"]}
    else:
        rules = {"none": [], "rank-mod": ["modulus", "spines"]}
    wanted = set(rules.get(rule, ["no such rule"]))
    if fabric["kind"] == "three-tier" and "cores" in says:
        wanted |= {"cores", "core_modulus"}
    need(says == wanted)
    need(all(whole(routing[name], 1, 2**15) for name in ("modulus", "core_modulus") if name in says))
    need("near" not in says or whole(routing["near"], 0, 2**16 - 1))
    lists = [routing["spines"]] if "spines" in says else []
    if "fibres" in says:
        need(
            type(routing["fibres"]) is dict
            and all(re.fullmatch("0|[1-9][0-9]{0,6}", leaf) for leaf in routing["fibres"])
        )
        lists += routing["fibres"].values()
    need(all(type(one) is list and len(one) <= 64 for one in lists))
    need(all(one.count(port) == 1 for one in lists for port in one))
    if "cores" in says:
        need(type(routing["cores"]) is list and len(routing["cores"]) <= 64)
        need(all(type(one) is list for one in routing["cores"]))
        lists += routing["cores"]
    need(all(whole(port, 0, 2**16 - 1) for one in lists for port in one))


class Fabric:
    """Where GPUs hang, and every cable by its two names."""

    def __init__(self, given):
        self.kind, self.each = given["kind"], given["gpus_per_server"]
        self.leaf_of_server = [leaf for leaf, servers in enumerate(given["servers_on_leaf"]) for _ in range(servers)]
        self.pods = given.get("leaf_pod") or [0] * len(given["servers_on_leaf"])
        self.cores, self.ocs, self.lanes = given.get("cores_per_group", 0), given.get("ocs"), given["parallel_links"]
        self.uplinks = self.ocs["switches"] if self.ocs else given["spines"] * self.lanes
        self.spines, self.leaves = given["spines"], len(given["servers_on_leaf"])
        self.gpus = len(self.leaf_of_server) * self.each
        self.facts = {"leaf_pod": [], "cores_per_group": 0, "ocs": None, **given}

    def leaf(self, gpu, rail=None):
        """The name of a GPU's leaf; on rails, of the leaf of another rail of its segment."""
        group = self.leaf_of_server[gpu // self.each]
        return f"leaf{group}.r{gpu % self.each if rail is None else rail}" if self.kind == "rail" else f"leaf{group}"

    def upper(self, leaf, uplink):
        """What an uplink of a leaf (by name) ends on."""
        if self.ocs:
            return f"ocs{uplink}"
        lane = f".{uplink % self.lanes}" if self.lanes > 1 else ""
        number = int(re.match("leaf([0-9]+)", leaf)[1])
        switch = f"agg{self.pods[number]}." if self.kind == "three-tier" else "spine"
        return f"{switch}{uplink // self.lanes}{lane}"

    def cables(self):
        names = [f"leaf{n}.r{r}" for n in range(self.leaves) for r in range(self.each)]
        leaves = names if self.kind == "rail" else [f"leaf{n}" for n in range(self.leaves)]
        found = {(leaf, self.upper(leaf, uplink)) for leaf in leaves for uplink in range(self.uplinks)}
        for pod in range(max(self.pods) + 1):
            for agg in range(self.uplinks):
                found |= {(f"agg{pod}.{agg}", f"core{agg}.{core}") for core in range(self.cores)}
        return found


def check_holdings(content, fabric):
    """GPUs, links and circuits exist and are held once; returns the links, with the NICs of rails."""
    order = content["rank_order"]
    need(sorted(order) == content["gpus"] and len(set(order)) == len(order) and max(order) < fabric.gpus)
    links = [tuple(link) for link in content["links"]]
    need(len(set(links)) == len(links) and set(links) <= fabric.cables())
    need(fabric.ocs or not content["circuits"])
    if fabric.ocs:
        ends, ports = [], []
        for one in content["circuits"]:
            far = set(one) - {"ocs", "leaf"}
            need(far in ({"other_leaf"}, {"spine", "fibre"}) and one["ocs"] < fabric.uplinks)
            leaves = [one["leaf"], *([one["other_leaf"]] if "other_leaf" in one else [])]
            need(max(leaves) < fabric.leaves)
            ends += [(f"leaf{leaf}", f"ocs{one['ocs']}") for leaf in leaves]
            if "spine" in one:
                need(one["spine"] < fabric.spines and one["fibre"] < fabric.ocs["spine_fibres"])
                ports.append((one["ocs"], one["spine"], one["fibre"]))
        need(len(set(ends)) == len(ends) and len(set(ports)) == len(ports) and set(ends) == set(links))
    return set(links) | {(f"gpu{gpu}", fabric.leaf(gpu)) for gpu in order if fabric.kind == "rail"}


class Job:
    """Ranks, and the way of every flow."""

    def __init__(self, content, fabric):
        self.fabric, self.order, self.routing = fabric, content["rank_order"], content["routing"]
        self.leaf = [fabric.leaf(gpu) for gpu in self.order]
        self.member = [self.leaf[:rank].count(leaf) for rank, leaf in enumerate(self.leaf)]
        servers = list(dict.fromkeys(gpu // fabric.each for gpu in self.order))
        self.server = [servers.index(gpu // fabric.each) for gpu in self.order]
        self.index = self.server if fabric.kind == "rail" else list(range(len(self.order)))
        self.far = {}
        for one in content["circuits"]:
            here = (f"leaf{one['leaf']}", one["ocs"])
            if "spine" in one:
                self.far[here] = f"spine{one['spine']}"
            else:
                self.far[here] = f"leaf{one['other_leaf']}"
                self.far[f"leaf{one['other_leaf']}", one["ocs"]] = f"leaf{one['leaf']}"
        for leaf, ports in self.routing.get("fibres", {}).items():
            need(int(leaf) < fabric.leaves and all(port < fabric.uplinks for port in ports))
        need(all(port < fabric.uplinks for port in self.routing.get("spines", [])))
        if self.routing["rule"] == "direct":
            need(len(set(self.leaf)) == 2 and f"leaf{self.routing['near']}" in self.leaf)

    def loads(self, pattern):
        """For every step, how many flows each link carries in each direction."""
        return [
            Counter(use for sender, receiver in step for use in self.way(sender, receiver))
            for step in steps(pattern, len(self.order))
        ]

    def ports(self, leaf):
        if "spines" in self.routing:
            return self.routing["spines"]
        return self.routing.get("fibres", {}).get(leaf.removeprefix("leaf"), [])

    def way(self, sender, receiver):
        """The links of one flow, each with its direction."""
        fabric, here, there = self.fabric, self.leaf[sender], self.leaf[receiver]
        uses = []
        if fabric.kind == "rail":
            rail = self.order[receiver] % fabric.each
            if self.server[sender] == self.server[receiver]:
                return []
            nic = self.order[sender] // fabric.each * fabric.each + rail
            here = fabric.leaf(nic)
            uses.append(((f"gpu{nic}", here), "up"))
        if here == there:
            return uses
        up, down = self.indices(sender, receiver, here, there)
        up_port, down_port = self.port(here, up), self.port(there, down)
        if fabric.ocs:
            one, other = self.far.get((here, up_port)), self.far.get((there, down_port))
            through_spine = one is not None and one == other and one.startswith("spine")
            need(through_spine or (up_port == down_port and one == there and other == here))
        uses.append(((here, fabric.upper(here, up_port)), "up"))
        uses.append(((there, fabric.upper(there, down_port)), "down"))
        pods = [fabric.pods[int(leaf.removeprefix("leaf"))] for leaf in (here, there)] if fabric.cores else [0, 0]
        if pods[0] != pods[1]:
            need("cores" in self.routing)
            turn = self.index[sender] // self.routing["modulus"] % self.routing["core_modulus"]
            need(up < len(self.routing["cores"]) and turn < len(self.routing["cores"][up]))
            core = self.routing["cores"][up][turn]
            need(core < fabric.cores)
            uses.append(((f"agg{pods[0]}.{up_port}", f"core{up_port}.{core}"), "up"))
            uses.append(((f"agg{pods[1]}.{up_port}", f"core{up_port}.{core}"), "down"))
        return uses

    def indices(self, sender, receiver, here, there):
        rule, modulus = self.routing["rule"], self.routing.get("modulus")
        if rule == "rank-mod":
            return (self.index[sender] % modulus,) * 2
        if rule == "by-member":
            return self.member[sender], self.member[receiver]
        if rule == "by-class":
            links = [len(self.ports(leaf)) // modulus for leaf in (here, there)]  # of one class
            within = [self.member[rank] // modulus for rank in (sender, receiver)]
            need(within[0] < links[0] and within[1] < links[1])
            return sender % modulus * links[0] + within[0], sender % modulus * links[1] + within[1]
        need(rule == "direct")
        return (self.member[sender if here == f"leaf{self.routing['near']}" else receiver],) * 2

    def port(self, leaf, index):
        ports = self.ports(leaf)
        need(index < len(ports))
        return ports[index]


def exists(condition):
    if not condition:
        raise NoSuchPattern


def steps(pattern, ranks):
    """Every step as a list of (sender, receiver)."""
    kind, _, number = pattern.partition(":")
    everyone = range(ranks)
    if kind in ("hybrid", "hierarchical-ring"):
        exists(number and ranks % int(number) == 0)
        block = int(number)
        for shift in range(1, block) if kind == "hybrid" else [1]:
            yield [(r, r // block * block + (r % block + shift) % block) for r in everyone]
        yield [(r, (r + block) % ranks) for r in everyone]
        return
    exists(not number)
    if kind == "ring":
        yield [(r, (r + 1) % ranks) for r in everyone]
    elif kind == "all-to-all":
        for shift in range(1, ranks):
            yield [(r, (r + shift) % ranks) for r in everyone]
    elif kind == "halving-doubling":
        exists(ranks & (ranks - 1) == 0)
        bit = 1
        while bit < ranks:
            yield [(r, r ^ bit) for r in everyone]
            bit *= 2
    elif kind == "pipeline":
        yield [(r, r + 1) for r in everyone if r + 1 < ranks]
        yield [(r, r - 1) for r in everyone if r]
    else:
        raise NoSuchPattern
