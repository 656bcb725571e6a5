"""The log-structured merge tree of a primary-key bucket: its shape, and how it is merged.

::

    level 0   [a] [b] [c]        files in order of arrival, they overlap: a sorted run each
    level 1   [d][e]             one sorted run: files in key order, no key twice
    ...
    level 5   [f][g][h][i]       the top level, the oldest data

    changelog              what a merge changed
    changelog_producers    who writes the changelog: one row per producer
    chosen_engine          the engine that the options of a table ask for
    tree/                  the runs of a bucket
      levels                 which runs there are
      universal_compaction   which of them a compaction takes, and to which level
      interval_partition     files -> sections whose keys do not meet -> few sorted runs each
      sort_merge             sorted runs -> slices that hold every version of their keys
      lookup_merge           merging level 0 with the nearest older record
    engines/               a slice -> one row per key: deduplicate, first_row, aggregation,
                           partial_update; traits has one row per engine
    aggregates/            the functions that merge one field
    merge_engine           the slice, and what every engine does with it
    key_versions           the keys of a slice that have several versions
    key_order, key_column  Java's order of keys, as integers that numpy sorts

Nothing here reads or writes a file.
"""
