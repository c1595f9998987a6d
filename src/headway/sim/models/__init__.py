"""What the simulated world knows beyond the engine: model profiles, loss curves, shared links, circuits.

Imports `network` and `workloads`.
"""
