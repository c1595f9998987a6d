"""The simulated world around the engine."""
