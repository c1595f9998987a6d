"""When: one short file a policy, and the table of their names.

Names and summaries are here as plain text, so that listing them does not load the compiler.
"""

# name: (module, what it does, options)
TABLE = {
    "fifo": ("fifo", "first come, first served; a job that does not fit holds up those behind it", ()),
    "best-effort": ("best_effort", "first come, first served; a job that does not fit is passed over", ()),
    "sjf": ("sjf", "shortest job first, without preemption (oracle)", ()),
    "srtf": ("srtf", "shortest remaining time first (oracle)", ("quantum",)),
    "srsf": ("srsf", "shortest remaining GPU-time first (oracle)", ("quantum",)),
    "las": ("las", "least attained service: the job that ran the shortest so far", ("quantum",)),
    "2d-las": ("two_d_las", "least attained service in GPU-time", ("quantum",)),
    "tiresias-l": (
        "tiresias_l",
        "discretised 2D-LAS: queues by attained GPU-time, the policy that Tiresias ships",
        ("queues", "threshold", "thresholds", "promote", "quantum"),
    ),
    "gittins": (
        "gittins",
        "2D-Gittins index from the jobs that ended so far, or from a file",
        ("index", "distribution", "quantum"),
    ),
    "tiresias-g": (
        "tiresias_g",
        "discretised 2D-Gittins",
        ("queues", "threshold", "thresholds", "promote", "distribution", "quantum"),
    ),
    "gandiva": ("gandiva", "time-slicing with packing and migration", ("quantum",)),
    "optimus": ("optimus", "GPUs by marginal gain, from predictions of the loss curve; resizes jobs", ("quantum",)),
}
ORACLES = ("sjf", "srtf", "srsf")
