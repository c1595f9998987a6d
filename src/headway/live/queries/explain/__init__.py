"""Why a job waits: the reason, the facts behind it, and what would help.

Imports `live/state`, `cluster` and `core`.
"""
