"""The command line: one module per command, and shared code.

::

    main        arguments, errors and exit codes
    parsers     all options and help texts
    rows        read, write, delete
    sql         SQL, its prompt, and the procedures of CALL
    files, inspect, plan, run, verify ...               the other commands
    output      results on standard output: one JSON object or text
    progress    progress bars on a terminal
"""
