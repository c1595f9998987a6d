"""The manager: its loop, the life cycle of jobs, submissions, commands and recovery.

Imports everything of `live` but `http` and `notify`.
"""
