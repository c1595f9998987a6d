"""Events (facts, past participles) and actions (verbs): the kinds of a journal row.

The order of the numbers is the order in which simultaneous facts are recorded: what frees GPUs first, arrivals last.
"""

from typing import Final

# Facts.
ENDED: Final = 0
STOPPED: Final = 1
STARTED: Final = 2
CROSSED: Final = 3  # a job's key changed by itself: a threshold, a promotion, the end of its minimum run time
SUBMITTED: Final = 4
HELD: Final = 5
RELEASED: Final = 6
RATED: Final = 7  # a running job was seen to make headway at another speed from now on
REFITTED: Final = 8  # the curve over the finished jobs was fitted again; about no job
TICKED: Final = 9  # the policy's quantum is over; about no job
EXPLAINED: Final = 10  # why the jobs of a class wait from now on; about no job
# Actions.
STOP: Final = 11
RESIZE: Final = 12
RESERVE: Final = 13  # GPUs that are being freed are for a waiting job; without any: its promise is withdrawn
START: Final = 14
PACK: Final = 15  # start on the second slot of the GPUs that another job holds
CLAIM: Final = 16  # GPUs of a team's guarantee are asked back for a waiting job; with 0 GPUs: no longer
NO_JOB: Final = -1  # of facts about no job

NAMES: Final = (
    "Ended",
    "Stopped",
    "Started",
    "Crossed",
    "Submitted",
    "Held",
    "Released",
    "Rated",
    "Refitted",
    "Ticked",
    "Explained",
    "Stop",
    "Resize",
    "Reserve",
    "Start",
    "Pack",
    "Claim",
)

# Why a job waits (the closed list of `explain`), in the order of the receipt's columns.
REASONS: Final = (
    "",
    "held",
    "dependency",
    "array_limit",
    "gpus",
    "fragmentation",
    "isolation",
    "turn",
    "reservation",
    "preempted",
    "stopping",
    "node_down",
    "retry_backoff",
    "quota",
)
NOT_WAITING: Final = 0
WAIT_HELD: Final = REASONS.index("held")
WAIT_GPUS: Final = REASONS.index("gpus")
WAIT_FRAGMENTATION: Final = REASONS.index("fragmentation")
WAIT_ISOLATION: Final = REASONS.index("isolation")
WAIT_TURN: Final = REASONS.index("turn")
WAIT_RESERVATION: Final = REASONS.index("reservation")
WAIT_PREEMPTED: Final = REASONS.index("preempted")
WAIT_STOPPING: Final = REASONS.index("stopping")
WAIT_NODE_DOWN: Final = REASONS.index("node_down")
WAIT_QUOTA: Final = REASONS.index("quota")
