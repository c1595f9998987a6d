"""Job specifications: YAML, command line or batch script. They are checked here once, so that other code can trust them.

Imports `io` and `errors`.
"""
