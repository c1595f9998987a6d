"""Nodes and their GPUs, by shorthand, preset or YAML file; used by both worlds. Imports `io` and `errors`."""
