"""A job as people write it: YAML, command line or batch script; checked here and trusted behind it."""
