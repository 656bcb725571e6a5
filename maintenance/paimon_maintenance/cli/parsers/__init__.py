"""The parsers of the commands."""
