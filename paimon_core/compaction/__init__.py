"""Compaction: finds what is due in a bucket, runs it, and returns the result.

::

    files of a bucket --pick, clustered_pick, append_coordinator, evolution--> CompactUnit
    CompactUnit --slices--> CompactUnits
    CompactUnit --rewrite--> CompactResult --to_message--> commit

A unit holds all decisions of the rules and is sent as bytes to the task that executes it.
"""
