"""Slurm's topology.conf (topology/tree) as leaves: which nodes are below the same lowest switch."""

from headway.slurm.fixed import fields
from headway.slurm.hostlist import expand


def read_leaves(text: str, names: list[str]) -> list[int]:
    """The leaf of each node, numbered in the order of the nodes; an empty list where the switches are not known or leave nodes out.

    The text is that of `scontrol show topology` or of topology.conf: a line per switch, a leaf with Nodes=, one above with Switches=.
    """
    leaf_of: dict[str, str] = {}
    for line in text.splitlines():
        values = fields(line.partition("#")[0])
        if "SwitchName" in values and int(values.get("Level") or 0) == 0 and not values.get("Switches"):
            leaf_of |= dict.fromkeys(expand(values.get("Nodes", "")), values["SwitchName"])
    if not all(name in leaf_of for name in names):
        return []
    numbers = {leaf: number for number, leaf in enumerate(dict.fromkeys(leaf_of[name] for name in names))}
    return [numbers[leaf_of[name]] for name in names]
