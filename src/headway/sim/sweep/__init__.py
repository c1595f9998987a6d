"""Grids of experiments from a YAML file, run on all cores or on Slurm, resumable. Imports `sim` beside it and `policies`."""
