"""Going back to another version of a table, its branches, and its manifests."""
