"""Damage to the journal: row checksums, a check of the write-ahead log, and recovery of what can be read. Imports `live/store`."""
