"""Changes of rows in large tables: rows with their places, and new files with some rows changed."""
