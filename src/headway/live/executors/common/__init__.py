"""Parts that several executors use: accounts, environments, folders of attempts, progress, whole files. Imports no executor."""
