"""Indexes of single data files, by which readers skip files or rows (Java: `fileindex/*`).

::

    in the manifest entry   small indexes: `DataFileMeta.embedded_index`
    FILE.index              larger ones, beside the data file, named in `DataFileMeta.extra_files`

    container | for each column, for each kind of index: bytes
    bloom-filter   may this value be in the file?                  all types but BOOLEAN, DECIMAL
    bitmap         which rows have this value, or null?            up to 64 bits, and texts
    bsi            which rows are less, equal, greater?            numbers and times up to 64 bits
    range-bitmap   the same, over a sorted dictionary              up to 64 bits, and texts

The table's option `file-index.KIND.columns` says what is indexed; `m[key]` is the value that a map
column holds under that key.  An index is never relied on: what it cannot tell remains.
"""
