"""The text of statements: tokens, literals, names and types."""
