"""The demonstration that `make run` shows: real training jobs on a real manager, and what another policy would have made of them.

Imports `client` and `runtime`; the command that shows it is in `cli`.
"""
