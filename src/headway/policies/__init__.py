"""When jobs run: one short file per policy, and the list of their names. Imports `core` and `io`.

The file of a policy has its SUMMARY and `make`, whose parameters are its options (io/options.py). Options of several policies are here.
"""

import math
from typing import Annotated

from headway.errors import BadInput
from headway.io import options

# The names of the policies, and their modules.
MODULES = {
    "headway": "headway",
    "fifo": "fifo",
    "best-effort": "best_effort",
    "backfill": "backfill",
    "sjf": "oracles.sjf",
    "srtf": "oracles.srtf",
    "srsf": "oracles.srsf",
    "las": "las",
    "2d-las": "two_d_las",
    "tiresias-l": "tiresias_l",
    "gittins": "gittins",
    "tiresias-g": "tiresias_g",
    "gandiva": "gandiva",
    "optimus": "optimus",
}
MOST_QUEUES = 64
SHORTEST_QUANTUM_S = 1e-3  # with shorter quanta, time hardly advances


def _read_quantum(name: str, text: str) -> float:
    seconds = options.number(name, text)
    if seconds < SHORTEST_QUANTUM_S:
        raise BadInput(f"{name}={text} is too short: at least {SHORTEST_QUANTUM_S:g} s")
    return seconds


def _show_quantum(seconds: float) -> str:
    return "none" if math.isinf(seconds) else f"{seconds:g} s"


Quantum = Annotated[
    float, options.Option("seconds: decisions are also made at every multiple of it", _read_quantum, _show_quantum)
]
DefragmentAfter = Annotated[
    float,
    options.Option(
        "how long a job waits before smaller jobs are migrated to free whole nodes for it, such as 1h; inf: never",
        options.time_or_inf,
        options.show_time,
    ),
]
