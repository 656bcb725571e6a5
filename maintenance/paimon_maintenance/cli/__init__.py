"""The command line: one module a command, and what they share.

::

    main        arguments, errors and exit codes        parser   what can be typed, and help
    read, files, inspect, plan, run, verify             the commands
    output      one JSON object, or text, and nothing else on standard output
    progress    bars on a terminal
"""
