"""Manifests: the files of a snapshot.

::

    snapshot-7 --- base list ---- manifest-a-0   ADD data-1  ADD data-2
              |              `--- manifest-b-0   DELETE data-1  ADD data-3
              |--- delta list --- manifest-c-0   the changes of this snapshot itself
              |--- changelog list                changelog files, if it has any
              `--- index-manifest-d-0            deletion vectors and hash indexes, one line each

All of them are in `manifest/`, in Avro (or the table's `manifest.format`), and never change.
"""
