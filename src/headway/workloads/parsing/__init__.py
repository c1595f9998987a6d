"""From the bytes of a trace file to checked columns, for all readers: unpacking, tables, dates, limits. Imports `workloads.workload`."""

from headway.workloads.parsing.reader import Options, Reader
from headway.workloads.parsing.rows import Names, Rows, checked_workload, table_rows
from headway.workloads.parsing.source import Source
from headway.workloads.parsing.table import Columns
from headway.workloads.workload import Workload

__all__ = ["Columns", "Names", "Options", "Reader", "Rows", "Source", "Workload", "checked_workload", "table_rows"]
