"""The versions of a table.

::

    snapshot/
      snapshot-3    {"version" : 3, "id" : 3, "schemaId" : 0, "baseManifestList" : ...}
      snapshot-4    never changes; its creation *is* the commit
      EARLIEST      3, a hint
      LATEST        4, a hint
    changelog/      the same, for changelogs that outlive their snapshots
"""
