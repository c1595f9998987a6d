"""Where jobs run: one file per placement, and the table of their names. Imports `network` and below."""

# name: (module, or module:function where it is not `make`; what it does; options with their defaults)
TABLE: dict[str, tuple[str, str, dict[str, str]]] = {
    "consolidated": ("consolidated", "the fewest nodes possible, otherwise wait; best fit", {"strict": "yes (or no)"}),
    "spread": ("spread", "most-free nodes first; never refuses while enough GPUs are free", {}),
    "random": ("random", "any free GPUs, from seed, job and attempt", {}),
    "profile": (
        "profile",
        "few nodes for models with skewed tensors, leftovers for the others",
        {"packlimit": "0.35", "strict": "yes (or no)"},
    ),
    "joint": (
        "joint",
        "few nodes and links of its own, or more nodes or shared links where waiting would cost more",
        {"patience": "1", "spread": "64", "packlimit": "0.35"},
    ),
    "leaf-aware": ("leaf_aware", "the fewest leaves available now, without links of its own", {}),
    "vclos": ("vclos", "GPUs with links of their own, equal on every leaf; needs a fabric", {}),
    "vclos-padded": ("vclos:make_padded", "the same on uneven leaves, at the price of idle links; needs a fabric", {}),
    "ocs-vclos": ("ocs_vclos", "GPUs with circuits of their own; needs a fabric with optical switches", {}),
}
# What the options mean, for a person who reads the list.
OPTIONS: dict[str, str] = {
    "strict": "no: a job takes more nodes than it needs rather than wait",
    "packlimit": "skew of a model's tensors above which its jobs want the fewest nodes",
    "patience": "longest wait for links of its own, as a multiple of the time that sharing is expected to cost the job",
    "spread": "longest wait for the fewest nodes, as a multiple of the time that more nodes are expected to cost the job",
}
