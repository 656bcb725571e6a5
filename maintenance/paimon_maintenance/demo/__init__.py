"""`./caretaker demo`: a lake, Airflow, and the main job on it, from nothing.

::

    main       what is asked for, and the story in its order
      |-- lake      the demonstration lake: tables, and writers that commit side by side
      |-- life      what comes after compaction: tags, expiry, rescale, orphans
      |-- measure   what a table is like before and after: files, runs, seconds, rows, checksum
      |-- airflow   Airflow standalone of our own, and its REST API
      |-- kept      processes that end when we end, whatever ends us;  keeper: who sees to it
      `-- screen    what the person sees: rich on a terminal, plain lines elsewhere
"""
