"""The live manager: the engine of the simulator over a real clock, real processes and a journal on disk.

Imports everything but `cli` and `demo`.
"""
