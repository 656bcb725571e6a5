"""Rescaling: moves rows to the buckets of another bucket count.

::

    files of a partition --unit--> RescaleUnit --rewrite--> files in the new buckets

`bucket_stage` keeps the rows of many buckets on disk while they are sorted by bucket, and
`bucket_runs` the sorted runs of one.
"""
