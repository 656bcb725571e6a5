"""The scheduler: which maintenance is worth its cost now, within a budget.

::

    candidates    a measurement -> the jobs that would help, with their benefit      (pure)
    benefit       what a job saves, and for how long                                 (pure)
    cost          seconds of a job: a regression on this lake's own runs             (pure)
    state         what is remembered of a table between rounds                       (pure)
    decide        candidates and a budget -> decisions, each with a reason           (pure)
    known_tables  looks at the tables of a round, and measures those that changed
    round         one round: measure, decide, run through the runner, record
    scope         the tables of a call, and how to open them
    claim         one process works on a table
    commits       the commits since a table was maintained, and the partitions that they changed
    on_commit     maintains them: compacts those partitions
    explain       the recorded decisions about one table, as text

The pure modules know no table and no clock: the simulation in benchmarks/ drives the same code.
"""
