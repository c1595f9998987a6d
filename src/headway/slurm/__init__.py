"""Slurm client: requests sent by its commands or by slurmrestd, checked answers; advising and steering.

Imports the simulator (to replay a queue), io and errors; the live executor builds on this package.
"""
