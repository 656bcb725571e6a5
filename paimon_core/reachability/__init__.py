"""Finds which files of a table are needed, and by which reference; removes the others.

::

    references   snapshots, tags and long-lived changelogs of all branches: they keep files alive
    files        the files that a reference needs: data, changelog, index, metadata
    garbage      files that nothing needs once some references are gone
    release      removes references: writes a journal, deletes the references, then their files

Expiry, tags, rollback, branches, the orphan job and verification all use this package.
"""
