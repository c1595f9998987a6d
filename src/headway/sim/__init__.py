"""The simulated world around the engine: one experiment in, one result out. Imports everything but `live`, `client`, `demo` and `cli`."""
