"""Contention-free slices of a fabric: the vClos search, padded shapes, optical circuits, and the solver behind them."""
