"""The demonstration that `make run` shows: real training jobs on a real manager, and what another policy would have made of them."""
