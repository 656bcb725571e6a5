"""Format tables: folders with files of one format and no snapshots (Java: `table/format/*`)."""
