"""The tables that the engine reads and `record` writes: jobs, state, actions, journal, options. Imports `core.compiler`."""
