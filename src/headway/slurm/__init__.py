"""Talking to Slurm: requests as text, sent by its commands or by slurmrestd, and answers read with suspicion; advising and steering.

Imports the simulator (to replay a queue), workloads, the cluster, io and errors; the live executor builds on this room.
"""
