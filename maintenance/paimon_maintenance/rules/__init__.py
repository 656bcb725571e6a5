"""Rules that several jobs share: retention, partition times, tag periods, table names and times."""
