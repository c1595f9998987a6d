"""The state of a live cluster, everything that changes it, and the accounts of teams, users and constraints.

Imports `jobfile`, `executors`, `fabric` and the engine.
"""
