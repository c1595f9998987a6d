"""Questions about a live cluster: why a job waits, when it would start, what another policy would have done.

Imports the simulator, and from `live` the state, the job file and the store.
"""
