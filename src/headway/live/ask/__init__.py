"""Questions about a live cluster: why a job waits, when it would start, what another policy would have done.

Imports the simulator, and of `live` the state and the job file.
"""
