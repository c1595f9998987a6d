"""Lists of jobs: which jobs a query chooses, in memory and in the journal, and in which order.

Imports `state` and what `queries` has beside it.
"""
