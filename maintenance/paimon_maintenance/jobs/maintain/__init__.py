"""All that is due for one table, in Java's order, from one read of its metadata."""
