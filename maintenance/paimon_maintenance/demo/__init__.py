"""`./caretaker demo`: creates a lake, starts Airflow and runs the main jobs.

::

    main            arguments, and the order of the demo
      |-- lake           the sample lake: tables, and concurrent writers
      |-- problems       more tables, one for each problem; `problem_table` creates them
      |-- accidents      a killed writer, a stopped consumer, and old files
      |-- policy         the policy of the lake
      |-- scheduler      rounds of the scheduler over all tables
      |-- people         what owners and people on call do where the scheduler must not decide
      |-- proposal       a rescale that waits for an approval in Airflow
      |-- life           the jobs after compaction: tags, expiry, rescale, orphan files
      |-- measure        measurements before and after: files, runs, seconds, rows, checksum
      |-- airflow        a private Airflow standalone, and its REST API
      |-- child_process  child processes that end with the demo, by means of `supervisor`
      `-- screen         the output: rich on a terminal, else plain lines
"""
