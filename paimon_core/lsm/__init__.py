"""The log-structured merge tree of a primary-key bucket: its structure and its merge.

::

    level 0   [a] [b] [c]        files in order of arrival, overlapping: one sorted run each
    level 1   [d][e]             one sorted run: files in key order, no key twice
    ...
    level 5   [f][g][h][i]       the top level, the oldest data

    changelog              the changes of a merge
    changelog_producers    the changelog producers: one row per producer
    chosen_engine          the engine that a table's options select
    tree/                  the runs of a bucket
      levels                 the existing runs
      universal_compaction   which runs a compaction takes, and its output level
      interval_partition     files -> sections with disjoint keys -> few sorted runs each
      sort_merge             sorted runs -> slices that hold every version of their keys
      lookup_merge           merging level 0 with the nearest older record
    engines/               a slice -> one row per key: deduplicate, first_row, aggregation,
                           partial_update; traits has one row per engine
    aggregates/            the functions that merge one field
    merge_engine           the slice, and the interface of all engines
    java_rules             what Java's versions merge differently
    key_versions           the keys of a slice that have several versions
    key_order, key_column  Java's order of keys, as integers that numpy sorts

Nothing here reads or writes a file.
"""
