"""Questions that read the state or the journal: explanations, forecasts, lists, replays, views, trends.

Imports `store` and what is below it (docs/architecture.md); `manager` gives it what it reads.
"""
