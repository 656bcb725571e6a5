"""Rules that several jobs share: safety tags, partition specs, table names and times."""
