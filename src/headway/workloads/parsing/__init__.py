"""From the bytes of a trace file to checked columns: unpacking, tables, dates, limits. A reader finds all it needs here."""

from headway.workloads.parsing.reader import Options, Reader
from headway.workloads.parsing.rows import Names, Rows, checked_workload, table_rows
from headway.workloads.parsing.source import Source
from headway.workloads.parsing.table import Table
from headway.workloads.workload import Workload

__all__ = ["Names", "Options", "Reader", "Rows", "Source", "Table", "Workload"]
__all__ += ["checked_workload", "table_rows"]
