"""How long a plan takes: the cost of a phase, operations on dimensions, and the compiled loops that play them.

Imports `collectives` beside it, and `core.compiler`.
"""
