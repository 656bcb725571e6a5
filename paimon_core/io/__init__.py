"""Where bytes live: one protocol, `file_io.FileIO`, and its two implementations.

::

    file_io.FileIO ---- local.LocalFileIO        system calls; the hot path
                   `--- fsspec_io.FsspecFileIO   S3 and whatever else fsspec knows, memory for tests
                            s3                   deadlines, retries and refusals of requests to S3
                            conditional_put      whether a store can be trusted with commits
    open.open_file_io   from a URL to the right one
    json_text           JSON printed as Java prints it
    read_retry          small files that another program may be writing in place
"""
