"""Plan an all-reduce on your own network, look at the limit, and save the plan.

Run: python examples/plan_collective.py [plan.json]
"""

import sys

from headway.collectives.advice import advise
from headway.collectives.plan import plan_to_json
from headway.collectives.schedulers import schedule
from headway.collectives.simulate.cost import CollectiveKind
from headway.io.files import write_atomically
from headway.sim.network_files import topology_from

SIZE_BYTES = 100_000_000


def main() -> None:
    """Two GPUs of a pair, eight pairs on a ring, sixteen rings on a switch."""
    network = topology_from("fullyconnected:2:1800Gbps:100ns,ring:8:400Gbps:500ns,switch:16:200Gbps:1.5us")
    for scheduler in ("baseline", "themis", "best"):
        outcome = schedule(network, SIZE_BYTES, scheduler=scheduler)
        print(
            f"{scheduler:9} {outcome.time_s * 1e3:7.3f} ms  {outcome.limit.limit_s / outcome.time_s:6.1%} of the limit"
        )
    advice = advise(network, CollectiveKind.ALL_REDUCE, SIZE_BYTES, sum(network.bandwidths_gbps))
    for row in advice.dimensions:
        print(f"{network.label(row.dim)}: {row.link_gbps:g} Gbps, best split {row.split_gbps:.0f} Gbps")
    if len(sys.argv) > 1:
        write_atomically(sys.argv[1], plan_to_json(outcome.plan))


if __name__ == "__main__":
    main()
