"""Training iterations: the layers of well-known models, and communication that overlaps with computation."""
