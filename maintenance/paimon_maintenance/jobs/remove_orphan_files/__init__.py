"""Files that nothing refers to: found, deleted or moved aside, put back, purged."""
