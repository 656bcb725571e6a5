"""What expires, and how it is removed: shared by the writers of a table and by the jobs.

::

    snapshots   changelogs   tags   partitions   consumers     plan, re-check, apply: one kind each
    deleting                                                   what an apply needs from its caller
    registered_partitions                                      partitions that the catalog keeps
    expiry_range   tag_schedule   partition_time               the rules, without I/O
    date_time_format                                           Java's DateTimeFormatter

`table.after_commit` applies them after each commit, as Java's committer does.  The jobs of
`paimon_maintenance` add reports, guards and the lease.  The rules for deleting are in
docs/architecture.md.
"""
