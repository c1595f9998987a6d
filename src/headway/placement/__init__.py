"""Where: one file a placement, and the table of their names."""
