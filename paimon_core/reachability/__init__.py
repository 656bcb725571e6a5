"""Which files of a table are still needed, by whom, and the removal of those that are not.

::

    references   snapshots, tags and long-lived changelogs of all branches: what keeps files alive
    files        the files that a reference needs: data, changelog, index, metadata
    garbage      what nothing needs any more once some references are gone
    release      lets references go: a journal first, then the references, then their files

Expiry, tags, rollback, branches, the orphan job and verification all ask here.
"""
