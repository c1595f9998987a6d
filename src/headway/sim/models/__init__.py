"""Models of the simulated world beyond the engine: model profiles, loss curves, shared links, circuits.

Imports `network` and `workloads`.
"""
