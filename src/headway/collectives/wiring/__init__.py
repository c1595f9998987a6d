"""Networks as graphs of single links, degraded or irregular: bounds by cuts, plans link by link. Imports `collectives` beside it."""
