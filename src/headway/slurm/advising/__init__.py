"""Advising: the jobs that a Slurm ran, replayed under other policies. Imports the package above it and the simulator."""
