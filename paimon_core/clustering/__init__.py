"""Clustering: rows are rewritten in the order of other columns (Java: `sort_compact`).

::

    rewrite         files of an append table, sorted into new files
    dynamic         a table of dynamic buckets, sorted into new buckets
    external_sort   the sort itself, on disk where memory does not suffice
"""
