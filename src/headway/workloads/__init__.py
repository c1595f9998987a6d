"""Workloads: traces, synthetic ones, how they are shaped before a run, and what they look like.

Imports `cluster`, `io` and `errors`.
"""
