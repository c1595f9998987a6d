"""Why a job waits: the reason, the facts behind it, and what would help.

Imports `live/state`, other queries and `core`.
"""
