"""Questions that read the state or the journal: explanations, wait receipts, forecasts, replays, views, trends.

Imports `state` and `store`.
"""
