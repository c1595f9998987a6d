"""Steering: Slurm goes on starting jobs, and Headway only sets the nice value of those that wait, by the service they attained.

Imports the package above it (requests, snapshots), io and errors.
"""
