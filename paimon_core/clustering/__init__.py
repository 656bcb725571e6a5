"""Clustering: rewrites rows in the order of chosen columns (Java: `sort_compact`).

::

    rewrite   files of an append table, sorted into new files
    dynamic   a dynamic-bucket table, sorted into new buckets
"""
