"""Policies that read the work left, which only a simulator knows: yardsticks, refused by a live manager. Imports `core`."""
