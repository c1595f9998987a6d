"""From the bytes of a trace file to checked columns, for all readers: unpacking, tables, dates, limits. Imports `workloads.workload`."""
