"""The engine's thread: rounds of facts, a decision, the journal, then the executor. Each file is one part of `world.py: LiveWorld`.

Other threads hand in jobs and requests (`inbox.py`). A round is collected (`recorder.py`), written (`writer.py`) and performed
(`performer.py`). What a manager does before its first round is in `opening.py`. Imports the state, the store, executors and the life cycle.
"""
