"""Slices of a fabric without contention: the vClos search, padded shapes, optical circuits, and the solver behind them.

Imports `core.compiler`.
"""
