"""Gives rows row ids without gaps."""
