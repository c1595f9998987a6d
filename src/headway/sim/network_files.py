"""Files that describe networks: fabrics, inventories and topologies. The packages that compute with them open no files."""

import gzip
import zlib
from pathlib import Path

from headway.collectives.topology.model import Topology
from headway.collectives.topology.text import TopologyFile, named_topology, topology_of
from headway.errors import BadInput, unknown
from headway.io.files import TooLong, open_file, read_rest, shown_size
from headway.io.json_file import read_json
from headway.io.yaml_file import MOST_BYTES, check_content, read_yaml
from headway.network.fabric.file import FabricFile, fabric_of
from headway.network.fabric.inventory import fabric_from_hosts
from headway.network.fabric.model import Fabric
from headway.network.fabric.presets import PRESETS
from headway.network.routes.inventory import Inventory, InventoryFile, inventory_of

MOST_HOST_BYTES = 64 << 20  # of a table of hosts, once unpacked: as many hosts as a fabric may have are some 10 MB
YAML = (".yaml", ".yml")


def load_fabric(name_or_path: str) -> Fabric:
    """Return a fabric: a preset by name, a YAML file, or a table of hosts (.csv, .csv.gz)."""
    if name_or_path in PRESETS:
        return PRESETS[name_or_path]()
    path = Path(name_or_path)
    if not path.exists():
        if path.suffix in {*YAML, ".csv", ".gz"} or "/" in name_or_path:
            raise BadInput(f"no file {name_or_path}: give a YAML file, an inventory CSV or one of {', '.join(PRESETS)}")
        raise unknown("fabric", name_or_path, PRESETS)
    if path.name.endswith((".csv", ".csv.gz")):
        return fabric_from_hosts(_unpacked(path), str(path), path.name.split(".")[0])
    return fabric_of(read_yaml(path, FabricFile, "fabric"), str(path))


def _unpacked(path: Path) -> str:
    """Return the text of a file, unpacked up to a bound: a small packed file can unfold to gigabytes."""
    try:
        with open_file(path) as file:
            raw = read_rest(gzip.GzipFile(fileobj=file) if path.name.endswith(".gz") else file, MOST_HOST_BYTES)
    except TooLong:
        most = shown_size(MOST_HOST_BYTES)
        raise BadInput(f"{path}: more than {most} once unpacked: not an inventory of hosts") from None
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not UTF-8 text") from None


def read_inventory(path: Path) -> Inventory:
    """Return an operator's inventory from a YAML or JSON file, with its fabric."""
    if path.suffix == ".json":
        file = check_content(read_json(path, "inventory", MOST_BYTES), InventoryFile, str(path), "inventory")
    else:
        file = read_yaml(path, InventoryFile, "inventory")
    beside = path.parent / file.fabric
    fabric = load_fabric(file.fabric if file.fabric in PRESETS or not beside.exists() else str(beside))
    return inventory_of(str(path), fabric, file)


def topology_from(text: str) -> Topology:
    """Return the topology that `--topology` names: a file if it looks like one, shorthand if it has colons, else a preset."""
    if not text.endswith(YAML):
        return named_topology(text)
    path = Path(text)
    return topology_of(read_yaml(path, TopologyFile, "topology"), str(path), path.stem)
