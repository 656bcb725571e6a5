"""The merge engines, which merge all versions of a key."""
