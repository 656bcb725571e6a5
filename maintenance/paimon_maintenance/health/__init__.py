"""The health of a table, from its metadata alone.

::

    measurement  what was measured: frozen dataclasses, with a JSON form for the history   (light)
    thresholds   good, bad and weight of each criterion; a policy can change them          (light)
    score        a measurement and thresholds -> 0 to 100, with reasons; pure              (light)
    reasons      each criterion: its value, and its sentence for people                    (light)
    measure      reads one table -> measurement
    layout       live files -> sorted runs, and what a compaction would rewrite
    holders      what holds back files of old snapshots: consumers, tags, branches
    held         files that only old snapshots need
    groups       live files, counted by partition and by bucket
    inspect      the facts and the advice of `caretaker inspect`

The light modules import only the standard library: policies and the scheduler use them.
"""
