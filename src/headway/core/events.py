"""Events (facts, past participles) and actions (verbs): the kinds of a journal row.

The order of the numbers is the order in which simultaneous facts are recorded: what frees GPUs first, arrivals last.
"""

from typing import Final

from headway.reasons import CODES

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
DEFERRED: Final = 11  # when a preemption that does not pay yet is to be tried again; about no job
DISCONNECTED: Final = 12  # links of a leaf have failed; about no job
# Actions.
STOP: Final = 13
RESIZE: Final = 14
PROMISE: Final = 15  # set GPUs aside for a waiting job until they are free; without GPUs: withdraw its promise
START: Final = 16
PACK: Final = 17  # start on the second slot of the GPUs that another job holds
MIGRATE: Final = 18  # stop a running job and promise it other GPUs; without GPUs: it finds them when it has stopped
NOTIFY: Final = 19  # announce to a job when its borrowed GPUs are taken back; an infinite time withdraws the notice
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
    "Deferred",
    "Disconnected",
    "Stop",
    "Resize",
    "Promise",
    "Start",
    "Pack",
    "Migrate",
    "Notify",
)

# Why a job waits, in the order of the receipt's columns; the first: it does not wait.
REASONS: Final = ("", *CODES)
NOT_WAITING: Final = 0
WAIT_HELD: Final = REASONS.index("held")
WAIT_GPUS: Final = REASONS.index("gpus")
WAIT_FRAGMENTATION: Final = REASONS.index("fragmentation")
WAIT_ISOLATION: Final = REASONS.index("isolation")
WAIT_MIN_RUNTIME: Final = REASONS.index("min_runtime")
WAIT_BACKFILL_RESERVATION: Final = REASONS.index("backfill_reservation")
WAIT_PREEMPTED: Final = REASONS.index("preempted")
WAIT_STOPPING: Final = REASONS.index("stopping")
WAIT_NODE_DOWN: Final = REASONS.index("node_down")
WAIT_QUOTA: Final = REASONS.index("quota")
WAIT_ADVANCE_RESERVATION: Final = REASONS.index("advance_reservation")
WAIT_NOTICE: Final = REASONS.index("notice")
