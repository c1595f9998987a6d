"""Text forms of how jobs share a network: `ecmp`, `ecmp?qps=4`, `ecmp?exact=10`, `spray?efficiency=0.95`.

- ideal: no job slows another down; isolated: every job has links of its own;
- ecmp: every flow hashes onto an uplink; `qps=4` cuts it into four flows with a hash each, as several queue pairs do;
- balanced: the flows of a step take the uplinks in turn; source: by the position of the sender's NIC;
- spray: every packet takes the least loaded uplink, as in adaptive routing: a leaf's uplinks are one wide link. `efficiency` is the part
  of the bandwidth that is left of it in practice.
- `exact=K` (`exact=yes`: 10): jobs step through K iterations, event by event, instead of mean slow-downs;
- `interleave=yes`: jobs that share a link never send at the same time while their times fit beside each other, the best that shifting
  them in time (CASSINI, Rajasekaran et al., NSDI'24) can do;
- `failed=spine3+leaf0-spine1`: cables and spines that do not work.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.errors import BadInput, unknown
from headway.io import specs

SHARED = ("ecmp", "balanced", "source", "spray")  # jobs slow each other down on links that they share
NETWORKS = ("ideal", *SHARED, "isolated")
DEFAULT_ITERATIONS = 10
MOST_ITERATIONS = 1000
MOST_QUEUE_PAIRS = 16
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "ideal": (),
    "ecmp": ("qps", "exact", "interleave", "failed"),
    "balanced": ("exact", "interleave", "failed"),
    "source": ("exact", "interleave", "failed"),
    "spray": ("efficiency", "exact", "failed"),
    "isolated": ("failed",),
}


@dataclass(frozen=True, slots=True)
class Sharing:
    """A rule with its options; the default is plain ECMP with mean slow-downs."""

    rule: str = "ecmp"
    queue_pairs: int = 1
    exact: int = 0  # iterations of every job, step by step; 0: means
    interleaved: bool = False
    efficiency: float = 1.0
    failed: tuple[str, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether jobs meet on links at all."""
        return self.rule in SHARED


def parse_network(spec: str) -> Sharing:
    """The network that a person named."""
    name, options = specs.split(spec)
    if name not in NETWORKS:
        raise unknown("network", name, NETWORKS)
    specs.check(options, OPTIONS[name], f"network {name}")
    sharing = Sharing(
        name,
        specs.whole(options, "qps", 1, 1, MOST_QUEUE_PAIRS),
        _iterations(options),
        _yes(options, "interleave"),
        specs.number(options, "efficiency") if "efficiency" in options else 1.0,
        tuple(options["failed"].split("+")) if "failed" in options else (),
    )
    if sharing.efficiency > 1:
        raise BadInput(f"efficiency={options['efficiency']} is above 1: it is the part of the bandwidth that is left")
    if sharing.interleaved and sharing.exact:
        raise BadInput(
            f"network {spec}: interleave is a bound on means, exact steps through every phase: give one of them"
        )
    return sharing


def _iterations(options: Mapping[str, str]) -> int:
    """Of `exact=K`, or `exact=yes` for the default; 0 without it."""
    if options.get("exact", "no") in ("yes", "no"):
        return DEFAULT_ITERATIONS if options.get("exact") == "yes" else 0
    return specs.whole(options, "exact", DEFAULT_ITERATIONS, 1, MOST_ITERATIONS)


def _yes(options: Mapping[str, str], key: str) -> bool:
    value = options.get(key, "no")
    if value not in ("yes", "no"):
        raise BadInput(f"{key}={value} must be yes or no")
    return value == "yes"
