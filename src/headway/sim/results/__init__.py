"""What a finished run amounts to: summaries, tables, files, timelines, and the data that reports draw.

Imports `sim` beside it, `network` and `report`.
"""
