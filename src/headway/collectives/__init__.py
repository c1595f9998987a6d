"""How collectives use a network of several dimensions: plans, schedulers and the exact limit. Imports `network` and below."""
