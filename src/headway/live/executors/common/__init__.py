"""Parts that several executors use: accounts, environments, notices, progress, whole files. Imports the base class above it and `io`."""
