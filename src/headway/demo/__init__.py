"""The demonstration that `make run` shows: real training jobs on a real manager, compared with another policy.

Imports `client` and `runtime`; the command that shows it is in `cli`.
"""
