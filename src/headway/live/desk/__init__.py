"""The manager's request handlers: submissions, queries and commands, safe to call from any thread.

Imports everything of `live` but `live/manager.py` and `live/http`.
"""
