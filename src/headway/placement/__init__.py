"""Where: one file a placement, and the table of their names."""

# name: (module, what it does, options)
TABLE = {
    "consolidated": ("consolidated", "the fewest nodes possible, otherwise wait; best fit", ("strict",)),
    "spread": ("spread", "most-free nodes first; never refuses while enough GPUs are free", ()),
    "random": ("random", "any free GPUs, from seed, job and attempt", ()),
    "profile": (
        "profile",
        "few nodes for models with skewed tensors, leftovers for the others",
        ("packlimit", "strict"),
    ),
}
