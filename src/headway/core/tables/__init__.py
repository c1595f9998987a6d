"""The engine's tables: state, jobs, options, actions, journal, and the scratch of a decision. Imports `core.compiler` and `core.events`."""
