"""Tables as users and engines work with them: opened by name, read and written by their options.

::

    system            system tables: metadata and changes as rows
    source            batch and streaming reads; time travel; changes between snapshots
    sink              write sessions, deletions, compaction, and what follows each commit
    chain             complete partitions in one branch, changes in another
    format            format tables: folders with files of one format, without snapshots
    open              from a name to a table

The other modules each change or describe one thing: indexes, statistics, row ids, branches.
"""
