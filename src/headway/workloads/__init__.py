"""Workloads: traces and synthetic workloads, shaping before a run, and descriptions.

Imports `cluster`, `io` and `errors`.
"""
