"""The pure engine: facts in, actions out. Kernels over tables, called by both worlds.

Imports `errors` and `job_state` only: no clock, no chance, no files.
"""
