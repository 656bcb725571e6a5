"""File storage: one protocol, `file_io.FileIO`, its implementations, and what is put around them.

::

    open.open_file_io   the `FileIO` for a URL
      local             system calls; the hot path
      hdfs              HDFS, without Java
      fsspec_io         S3, every other fsspec store, memory for tests
        s3, s3_many       deadlines, retries and errors of S3 requests; many objects at once
        conditional_put   checks that a store is safe for commits
        move_objects      folders of object stores
        store_options     Paimon's option names, as arguments of fsspec

    delegating          the base of what is put around a store
      confined            nothing outside of the table is changed
    read_retry          small files that another program may overwrite in place
    named_files         metadata files that are found by their names
    temporary           local files for rows that do not fit into memory
    json_text           JSON printed as Java prints it
"""
