"""The parts of a decision: what is on offer, who makes room, what is kept for the first in line, and packing. Imports `core`."""
