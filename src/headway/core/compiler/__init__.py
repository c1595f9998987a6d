"""Compilation of kernels: decorator, linking, cache on disk, and error messages of compiled code. Imports `errors` only."""
