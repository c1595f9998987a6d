"""Talking to Slurm: requests as text, sent by its commands or by slurmrestd, and answers read with suspicion; advising and steering.

Imports the simulator (to replay a queue), io and errors; the live executor builds on this room.
"""
