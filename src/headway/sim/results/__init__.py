"""Results of a finished run: summaries, tables, files, timelines, and the data that reports draw.

Imports `sim` beside it, `network` and `report`.
"""
