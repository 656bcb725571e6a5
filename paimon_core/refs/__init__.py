"""Named references to versions, which keep the versions alive.

::

    tag/tag-2024-01-01        a snapshot's JSON, optionally with a retention time
    branch/branch-b1/         its own schemas, snapshots, tags, ...; shared data files
    consumer/consumer-job7    {"nextSnapshot" : 5}: the next snapshot that a reader needs
"""
