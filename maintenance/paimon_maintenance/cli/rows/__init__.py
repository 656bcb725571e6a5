"""The commands that read, write and delete rows."""
