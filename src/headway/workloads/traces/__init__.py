"""Trace readers, one file per format. Imports `workloads.parsing`."""
