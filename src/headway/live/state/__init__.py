"""The state of a live cluster, everything that changes it, and the accounts of teams, users and constraints.

Imports `jobfile`, `fabric` and the engine. It opens no files.
"""
