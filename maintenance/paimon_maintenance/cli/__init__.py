"""The command line: one module per command, and shared code.

::

    main        arguments, errors and exit codes        parser   all options and help texts
    read, files, inspect, plan, run, verify             the commands
    output      results on standard output: one JSON object or text
    progress    progress bars on a terminal
"""
