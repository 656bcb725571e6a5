"""Which files a snapshot holds.

::

    snapshot-7 --- base list ---- manifest-a-0   ADD data-1  ADD data-2
              |              `--- manifest-b-0   DELETE data-1  ADD data-3
              |--- delta list --- manifest-c-0   what this snapshot itself changed
              |--- changelog list                changelog files, if it has any
              `--- index-manifest-d-0            deletion vectors and hash indexes, a line each

All in `manifest/`, in Avro (or in the table's `manifest.format`), written once and never changed.
"""
