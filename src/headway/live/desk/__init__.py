"""The desk of the manager, where people and programs are served: submissions, questions and verbs, safe to call from any thread.

Imports everything of `live` but `live/manager.py` and `live/http`.
"""
