"""One run of a job on a table, from the request to the report."""
