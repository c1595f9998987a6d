"""A job as people write it: YAML, command line or batch script. Checked here once, so that the rest can trust it.

Imports `io` and `errors`.
"""
