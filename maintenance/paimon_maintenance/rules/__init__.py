"""Rules that jobs share: retention, partition times, tag periods, and how they read names and times."""
