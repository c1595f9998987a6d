"""Training iterations: the layers of well-known models, with communication that overlaps computation. Imports `collectives` beside it."""
