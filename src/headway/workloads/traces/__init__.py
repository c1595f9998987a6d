"""Trace readers, one file per format. Imports `workloads.parsing` and `workloads.workload`."""
