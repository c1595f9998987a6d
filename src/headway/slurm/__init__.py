"""Talking to Slurm: requests as text, sent by its commands or by slurmrestd, and answers read with suspicion; its history; steering it.

Imports io and errors; the live executor builds on this room.
"""
