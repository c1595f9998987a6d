"""Leaf-spine, rail and three-tier fabrics: as numbers, as presets, as files. Imports `io` and `errors`."""
