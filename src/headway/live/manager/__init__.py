"""The manager: submissions, commands and questions; the life cycle of jobs as pure functions; recovery. `loop` is the engine's thread.

Imports everything of `live` but `http` and `notify`.
"""
