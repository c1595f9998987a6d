"""When jobs run: one short file per policy, and the table of their names. Imports `core` and `io`.

Names and summaries are here as plain text, so that listing them does not load the compiler.
"""

NO_QUANTUM = "none"
FREE_MOVES = (
    "free"  # `clears`: smaller jobs make way for a large one only where that costs nothing and nobody is stopped
)
QUEUES = {
    "queues": "2",
    "threshold": "3200 GPU-seconds",
    "thresholds": "by threshold, doubling",
    "promote": "inf",
}
SAMPLES = "the jobs that ended"

# name: (module, what it does, options with their defaults)
TABLE: dict[str, tuple[str, str, dict[str, str]]] = {
    "headway": (
        "headway",
        "queues by attained GPU-time, four times as long each; stops jobs only where that pays (the default)",
        {"rent": "0.35", "clears": "1h"},
    ),
    "fifo": ("fifo", "first come, first served; a job that does not fit holds up those behind it", {}),
    "best-effort": ("best_effort", "first come, first served; a job that does not fit is passed over", {}),
    "backfill": (
        "backfill",
        "first come, first served; others pass the first in line only if that does not delay it (EASY, as in Slurm)",
        {"limit": "as jobs ask", "requested": "as the trace says"},
    ),
    "sjf": ("oracles.sjf", "shortest job first, without preemption (oracle)", {}),
    "srtf": ("oracles.srtf", "shortest remaining time first (oracle)", {"quantum": NO_QUANTUM, "clears": FREE_MOVES}),
    "srsf": ("oracles.srsf", "shortest remaining GPU-time first (oracle)", {"quantum": NO_QUANTUM, "clears": "1h"}),
    "las": (
        "las",
        "least attained service: the job that ran the shortest so far",
        {"quantum": "60 s", "clears": FREE_MOVES},
    ),
    "2d-las": ("two_d_las", "least attained service in GPU-time", {"quantum": "60 s", "clears": FREE_MOVES}),
    "tiresias-l": (
        "tiresias_l",
        "discretised 2D-LAS: queues by attained GPU-time, the policy that Tiresias ships; threshold=auto is fitted",
        {**QUEUES, "quantum": NO_QUANTUM, "clears": FREE_MOVES},
    ),
    "gittins": (
        "gittins",
        "2D-Gittins index from the jobs that ended so far (fitted again for every hundredth more), or from a file",
        {"index": "printed", "distribution": SAMPLES, "quantum": "60 s", "clears": FREE_MOVES},
    ),
    "tiresias-g": (
        "tiresias_g",
        "discretised 2D-Gittins",
        {**QUEUES, "distribution": SAMPLES, "quantum": NO_QUANTUM, "clears": FREE_MOVES},
    ),
    "gandiva": ("gandiva", "time-slicing with packing and migration", {"quantum": "60 s"}),
    "optimus": (
        "optimus",
        "GPUs by marginal gain, from predictions of the loss curve; resizes jobs",
        {"quantum": "600 s"},
    ),
}
ORACLES = ("sjf", "srtf", "srsf")
# What the options mean, for a person who reads the list.
OPTIONS: dict[str, str] = {
    "rent": "others are stopped for a job once it has waited for so many times the GPU-time that stopping them costs",
    "clears": "how long a job waits before smaller ones are moved out of its way, such as 1h; free: they are at once, but only where "
    "preemption is free and nobody has to be stopped; inf: they never are",
    "limit": "the longest that a job is taken to run, such as 8h",
    "requested": "jobs without a limit ask for so many times what they take",
    "quantum": "seconds: decisions are also made at every multiple of it",
    "queues": "how many queues there are by attained GPU-time",
    "threshold": "GPU-seconds at which a job leaves the first queue; each further queue ends at twice the bound before; auto: fitted",
    "thresholds": "all these bounds, such as 3250:7200",
    "promote": "a job that has waited for so many times what it ran returns to the first queue",
    "index": "the Gittins index as printed in the paper, or as plotted in its slides",
    "distribution": "a file of GPU-seconds to work the index out from, one number per line",
}
