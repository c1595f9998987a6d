"""A slice on switches as data: interfaces joined by cables and circuits, and packets walked through the tables of the slice."""

from ipaddress import IPv4Address, IPv4Network

from headway.network.routes.policies import devices_of


class Hall:
    """Switches with the tables of one slice, and cables between their interfaces."""

    def __init__(self, certificate, inventory, failed=()):
        self.fabric, self.inventory = certificate.fabric, inventory
        self.devices = {one.name: one for one in devices_of(certificate, inventory, failed)}
        names = [self.fabric.leaf_name(leaf) for leaf in self.fabric.leaf_of_gpu.tolist()]
        self.leaf_of = {nic.address: names[gpu] for gpu, nic in inventory.nics.items()}
        self.ends = {}
        for (low, high), cable in inventory.cables.items():
            if cable.upper:
                upper = ".".join(high.split(".")[: 2 if high[0] in "ac" else 1])
                self.join((low, cable.lower.interface), (upper, cable.upper.interface), (low, high), (low, high))
        for one in certificate.circuits:
            low = (f"leaf{one.leaf}", f"ocs{one.ocs}")
            if one.other_leaf >= 0:
                far, there = (f"leaf{one.other_leaf}", f"ocs{one.ocs}"), f"leaf{one.other_leaf}"
            else:
                far, there = (f"spine{one.spine}.{one.fibre}", f"ocs{one.ocs}"), f"spine{one.spine}"
            here, over = inventory.cables[low].lower.interface, inventory.cables[far].lower.interface
            self.join((low[0], here), (there, over), low, far if one.other_leaf >= 0 else low)

    def join(self, lower, upper, low_cable, high_cable):
        """Two interfaces, and the cable by which each is named in certificates."""
        self.ends[lower] = (*upper, low_cable, high_cable)
        self.ends[upper] = (*lower, high_cable, low_cable)

    def by_tables(self, name, source, target, arrives):
        """The interface that the tables choose; None is normal routing."""
        device = self.devices.get(name)
        for table in device.selected if device else ():
            mine = f"{source}/32" in table.sources if table.sources else arrives in table.arrives
            if mine and not any(inside(target, prefix) for prefix in table.local):
                return longest(table.ways, target)
        return longest(device.plain, target) if device else None

    def by_policies(self, name, source, target, arrives):
        """The same by first match of the shared policy bound to the interface."""
        return self.first_match(name, source, target, arrives, lambda device: device.shared)

    def by_single_policies(self, name, source, target, arrives):
        """The same by first match of the port's own policy, or of that of the table by incoming port."""
        return self.first_match(name, source, target, arrives, lambda device: device.single + device.arriving)

    def first_match(self, name, source, target, arrives, policies):
        device = self.devices.get(name)
        for policy in policies(device) if device else ():
            if arrives in policy.interfaces:
                for match in policy.matches:
                    if inside(source, match.source) and inside(target, match.target):
                        return match.way.hop.interface if match.way else None
        return longest(device.plain, target) if device else None

    def normal(self, name, target, gone_up):
        """What routing without us does where there is one way only."""
        leaf = self.leaf_of[target]
        cables = [ends for ends in self.ends if ends[0] == name and self.ends[ends][0] == leaf]
        if not cables and gone_up:  # a core, or an aggregation switch of another pod
            pod = self.fabric.leaf_pod[int(leaf.removeprefix("leaf"))]
            cables = [e for e in self.ends if e[0] == name and self.ends[e][0].startswith(f"agg{pod}.")]
        assert len(cables) == 1, f"{name} has {len(cables)} ways to {leaf}"
        return cables[0][1]

    def walk(self, choose, nic, target):
        """The cables from a NIC to an address, each with the direction."""
        here, arrives, uses = self.leaf_of[nic.address], nic.port, []
        for _ in range(6):
            if self.leaf_of[target] == here:
                return uses
            out = choose(here, nic.address, target, arrives) or self.normal(here, target, bool(uses))
            up = here.startswith("leaf") or (here.startswith("agg") and self.ends[here, out][0].startswith("core"))
            there, arrives, mine, theirs = self.ends[here, out]
            if here.startswith("leaf") and there.startswith("leaf"):
                uses += [(mine, "up"), (theirs, "down")]
            else:
                uses.append(
                    (mine, "up") if up else (theirs if here.startswith("spine") and self.fabric.ocs else mine, "down")
                )
            here = there
        raise AssertionError("a loop")


def inside(address, prefix):
    return not prefix or IPv4Address(address) in IPv4Network(prefix)


def longest(ways, target):
    found = [way for way in ways if inside(target, way.target)]
    return max(found, key=lambda way: IPv4Network(way.target or "0.0.0.0/0").prefixlen).hop.interface if found else None
