"""Names that point at versions, and that keep them alive.

::

    tag/tag-2024-01-01        a snapshot's JSON, perhaps with a time to live
    branch/branch-b1/         schemas, snapshots, tags, ... of a line of its own, data shared
    consumer/consumer-job7    {"nextSnapshot" : 5}: the next snapshot that a reader wants
"""
