"""Jobs to run: traces, synthetic workloads, what is done to them before a run, and what they look like.

Imports `cluster`, `io` and `errors`.
"""
