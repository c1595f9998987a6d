"""vclos-padded: leaves may give different numbers of GPUs (ours; network/slices/padded.py). The kernel is made in `vclos`."""

from headway.placement.vclos import make_padded as make

__all__ = ["make"]
