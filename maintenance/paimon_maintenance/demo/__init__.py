"""`./caretaker demo`: creates a lake, starts Airflow and runs the main jobs.

::

    main            arguments, and the order of the demo
      |-- lake           the sample lake: tables, and concurrent writers
      |-- sick           more tables, most of them with one problem each
      |-- scheduler      rounds of the scheduler over all tables
      |-- life           the jobs after compaction: tags, expiry, rescale, orphan files
      |-- measure        measurements before and after: files, runs, seconds, rows, checksum
      |-- airflow        a private Airflow standalone, and its REST API
      |-- child_process  child processes that end with the demo, by means of `supervisor`
      `-- screen         the output: rich on a terminal, else plain lines
"""
