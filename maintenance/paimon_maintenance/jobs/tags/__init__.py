"""Creates, deletes, renames, replaces and expires tags, manually or by schedule."""
