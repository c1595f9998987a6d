"""Advising: the jobs that a Slurm ran, replayed under other policies. Imports the room above it and the simulator."""
