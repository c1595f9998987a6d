"""Networks of links from a file, or from a topology link by link."""

from pathlib import Path

from headway.io.files import read_file
from headway.io.yaml_file import MOST_BYTES, read_yaml
from headway.sim.network_files import YAML, topology_from
from headway_wiring.model import Wiring, wiring_of
from headway_wiring.text import WiringFile, mentions_links, wiring_from_rows


def wiring_from(text: str) -> Wiring:
    """Return the network that a file of links describes, or a topology (its name, file or shorthand) link by link."""
    path = Path(text)
    if not text.endswith(YAML) or not _has_links(path):
        return wiring_of(topology_from(text))
    return wiring_from_rows(read_yaml(path, WiringFile, "network of links"), str(path), path.stem)


def _has_links(path: Path) -> bool:
    """Return whether a file mentions links; what else is wrong with it is told by its reader."""
    try:
        return mentions_links(read_file(path, MOST_BYTES).decode("utf-8"))
    except (OSError, ValueError):
        return False
