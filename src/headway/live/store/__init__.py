"""Storage on disk: the journal, submissions, finished jobs, snapshots, and recovery from them.

Imports `state` and what is below it.
"""
