"""From the bytes of a trace file to checked columns: unpacking, tables, dates, limits. Shared by all readers."""
