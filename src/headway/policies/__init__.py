"""When: one short file a policy, and the table of their names."""
