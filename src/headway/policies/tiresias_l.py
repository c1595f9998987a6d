"""tiresias-l: discretised 2D-LAS, the policy that Tiresias ships (section 3.2.3).

Queues by attained GPU-time; inside a queue by the time of the first start, not of submission: a job that did not fit was skipped, and the
order of submission would then preempt for nothing. PROMOTEKNOB lifts a job that waited too long.
"""

from itertools import pairwise
from math import inf
from typing import Annotated, Any

from headway.core.keys import crossing
from headway.core.protocols import Policy
from headway.core.tables.options import Options
from headway.errors import BadInput
from headway.io.options import Option, number, number_or_inf, number_or_word, show_number, whole
from headway.policies import MOST_QUEUES, DefragmentAfter, Quantum

THRESHOLD_GPU_S = 3200.0  # the testbed's, section 5.1


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By queue, then by first start."""
    return float(job.level), job.first


SUMMARY = "discretised 2D-LAS: queues by attained GPU-time, the policy that Tiresias ships; threshold=auto is fitted"
AUTO = "auto"


def _read_threshold(name: str, text: str) -> float | str:
    return AUTO if text == AUTO else number_or_word(name, text, AUTO)


def _read_thresholds(name: str, text: str) -> tuple[float, ...]:
    bounds = tuple(_bound(name, text, part) for part in text.split(":"))
    if any(a >= b for a, b in pairwise(bounds)):
        raise BadInput(f"{name}={text} must rise, such as 3250:7200")
    if len(bounds) >= MOST_QUEUES:
        raise BadInput(f"{name}: {len(bounds) + 1} queues are too many: at most {MOST_QUEUES}")
    return bounds


def _bound(name: str, text: str, part: str) -> float:
    try:
        return number(name, part)
    except BadInput:
        raise BadInput(f"{name}={text}: {part!r} is not a number above 0; write 3250:7200") from None


Queues = Annotated[
    int | None, Option("how many queues there are by attained GPU-time", whole(1, MOST_QUEUES), lambda _: "2")
]
Threshold = Annotated[
    float | str | None,
    Option(
        "GPU-seconds at which a job leaves the first queue; each further queue ends at twice the bound before; auto: fitted",
        _read_threshold,
        lambda _: f"{THRESHOLD_GPU_S:g} GPU-seconds",
    ),
]
Thresholds = Annotated[
    tuple[float, ...] | None,
    Option("all these bounds, such as 3250:7200", _read_thresholds, lambda _: "by threshold, doubling"),
]
Promote = Annotated[
    float,
    Option(
        "return a job to the first queue when it has waited for this multiple of its run time",
        number_or_inf,
        show_number,
    ),
]


def queue_fields(
    name: str, queues: int | None, threshold: float | str | None, thresholds: tuple[float, ...] | None
) -> dict[str, Any]:
    """Return the fields of a policy with these queues: their bounds, and whether they are fitted to the jobs that ended."""
    if thresholds is not None:
        written = ":".join(f"{bound:g}" for bound in thresholds)
        if threshold == AUTO:
            raise BadInput(f"{name}: threshold=auto fits the thresholds: leave out thresholds={written}")
        if threshold is not None:
            raise BadInput(f"{name}: give threshold or thresholds, not both")
        if queues not in (None, len(thresholds) + 1):
            raise BadInput(f"queues={queues} needs {queues} - 1 thresholds, not {len(thresholds)}")
        return {"thresholds": thresholds}
    if queues == 1 and threshold is not None:
        shown = threshold if isinstance(threshold, str) else f"{threshold:g}"
        raise BadInput(f"queues=1 has no threshold: leave out threshold={shown}, or take more queues")
    first = threshold if isinstance(threshold, float) else THRESHOLD_GPU_S
    bounds = tuple(first * 2.0**i for i in range((queues or 2) - 1))
    return {"thresholds": bounds} | ({"fits": True, "learns": True} if threshold == AUTO else {})


def make(
    queues: Queues = None,
    threshold: Threshold = None,
    thresholds: Thresholds = None,
    promote: Promote = inf,
    quantum: Quantum = inf,
    defragment_after: DefragmentAfter = inf,
) -> Policy:
    """Return the policy."""
    return Policy(
        "tiresias-l",
        key,
        change=crossing,
        **queue_fields("tiresias-l", queues, threshold, thresholds),
        promote=promote,
        quantum=quantum,
        defragment_after=defragment_after,
    )
