"""Data for monitoring: GPU map, queue, trend, timeline of a job, network.

Imports the other packages of `live` but `http`. The answers are plain data, so that a recorded run can give the same.
"""
