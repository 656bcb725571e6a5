"""File storage: one protocol, `file_io.FileIO`, and its two implementations.

::

    file_io.FileIO ---- local.LocalFileIO        system calls; the hot path
                   `--- fsspec_io.FsspecFileIO   S3, every other fsspec store, memory for tests
                            s3                   deadlines, retries and errors of S3 requests
                            conditional_put      checks that a store is safe for commits
    open.open_file_io   the `FileIO` for a URL
    json_text           JSON printed as Java prints it
    read_retry          small files that another program may overwrite in place
"""
