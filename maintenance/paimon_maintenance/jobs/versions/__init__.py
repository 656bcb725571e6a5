"""Going back to another version of a table, and its branches."""
