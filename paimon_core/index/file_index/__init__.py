"""Indexes of data files, which let readers skip files or rows (Java: `fileindex/*`).

::

    in the manifest entry   small indexes: `DataFileMeta.embedded_index`
    FILE.index              larger ones, next to the data file, named in `DataFileMeta.extra_files`

    container | for each column, for each kind of index: bytes
    bloom-filter   may this value be in the file?                  all types but BOOLEAN, DECIMAL
    bitmap         which rows have this value, or null?            up to 64 bits, and strings
    bsi            which rows are less, equal, greater?            numbers and times up to 64 bits
    range-bitmap   the same, over a sorted dictionary              up to 64 bits, and strings

The table option `file-index.KIND.columns` selects the indexed columns; `m[key]` is the value
of a map column at that key.  Indexes are optional: files without an answer are read.
"""
