"""What the simulated world knows beyond the engine: model profiles, loss curves, shared links, circuits."""
