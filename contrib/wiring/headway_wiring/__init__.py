"""`headway collective links`: networks as graphs of single links, degraded or irregular: bounds by cuts, plans link by link.

A package beside Headway: `pip install ./contrib/wiring` adds the command. Imports `collectives`, `sim` for the files of
networks, and `cli`.
"""
