"""Where units of work run: in this process, or on Spark."""
