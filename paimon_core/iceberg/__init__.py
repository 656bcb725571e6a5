"""Iceberg's metadata of a table, so that Iceberg readers find its data files (Java: `iceberg/*`).

::

    metadata/version-hint.text     N, the newest version
    metadata/vN.metadata.json      schemas, snapshots, tags; N is the Paimon snapshot
      -> snap-1-UUID.avro          manifest list of one snapshot
           -> UUID-m1.avro         manifests: data files with statistics, and deletion vectors

Each line names the next.  The modules here know the format; `commit.iceberg.publish` decides what
the metadata of a snapshot says.
"""
