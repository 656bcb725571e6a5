"""Compaction: what is due in a bucket, doing it, and what came of it.

::

    files of a bucket --pick, append_coordinator--> CompactUnit --slices--> CompactUnits
    CompactUnit --rewrite--> CompactResult --to_message--> commit

A unit says all that the rules decided and travels as bytes to the task that carries it out.
"""
