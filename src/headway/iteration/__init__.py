"""The duration of a training iteration: computation, and communication that does not overlap with it. Imports `collectives` and below."""
