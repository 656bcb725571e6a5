"""The merge engines: what becomes of all versions of a key."""
