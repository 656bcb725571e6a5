"""A table of Hive whose data files Paimon can take over (Java: `hive/migrate/HiveMigrator`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from paimon_core.catalog.hive import tables as hive_tables
from paimon_core.catalog.hive.folders import place_of
from paimon_core.catalog.hive.format_tables import HiveFormatTables, own_folder
from paimon_core.catalog.hive.metastore import Metastore, hive_name
from paimon_core.catalog.hive.partitions import HivePartitions
from paimon_core.errors import CommitConflict, InvalidArgument, NotFound, UnsupportedFeature
from paimon_core.io.confined import is_inside
from paimon_core.io.file_io import FileIO, FileStat, delete_files
from paimon_core.io.open import open_file_io
from paimon_core.names import Boundary
from paimon_core.paths import is_hidden
from paimon_core.remote.thrift_calls import FieldSchema, StorageDescriptor, Table
from paimon_core.table.format.files import format_partitions, shown_below

_AVRO: Final = "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat"
_PARQUET: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
_ORC: Final = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
_FORMATS: Final = (("avro", _AVRO), ("parquet", _PARQUET), ("orc", _ORC))
_DEFAULT_NAME: Final = "hive.exec.default.partition.name"
_USUAL_DEFAULT_NAME: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The files of a partition, or of a table without partitions: values are None for null."""

    values: dict[str, str | None]
    file_format: str
    io: FileIO
    folder: str
    files: tuple[FileStat, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable:
    """A table of the metastore that is none of Paimon."""

    metastore: Metastore
    identifier: str
    entry: Table

    @classmethod
    def find(cls, metastore: Metastore, identifier: str) -> ForeignTable:
        """The table; NotFound, and UnsupportedFeature if its files alone do not give its rows."""
        try:
            entry = metastore.entry(identifier)
        except NotFound as e:
            raise NotFound(
                f"Source hive table does not exist: {identifier}", table=identifier
            ) from e
        found = cls(metastore=metastore, identifier=identifier, entry=entry)
        if hive_tables.is_paimon(entry):
            raise InvalidArgument(
                f"{identifier} is a table of Paimon already",
                table=identifier,
                next_step="no action is needed",
            )
        if hive_tables.other_kind(entry) == "view":
            raise found._refused("it is a view")
        if hive_tables.is_transactional(entry):
            raise found._refused("it is transactional, so some rows of its files do not count")
        found.format_of(entry.sd)
        return found

    @property
    def keys(self) -> list[str]:
        """The names of the partition columns."""
        return [str(c.name) for c in self.entry.partition_keys or ()]

    @property
    def comment(self) -> str | None:
        return (self.entry.parameters or {}).get("comment")

    @property
    def default_partition_name(self) -> str:
        """The text of null in the metastore's partitions."""
        found: str = self.metastore.client.call(
            "get_config_value", _DEFAULT_NAME, _USUAL_DEFAULT_NAME
        )
        return found

    def columns(self) -> list[FieldSchema]:
        """The columns, with those of the partitions, as the metastore gives them to readers."""
        found: Sequence[FieldSchema] = self.metastore.client.call(
            "get_schema", *hive_name(self.identifier)
        )
        return list(found)

    def parts(self) -> list[Part]:
        """All files that hold rows of the table.

        The partitions are those of the metastore.  If it has none, they are the folders, as for
        whoever reads the table as a format table.
        UnsupportedFeature for files below its folders that Hive may read, or would read after a
        repair, and that are in no partition: a drop would delete them.
        """
        location = self.metastore.location(self.entry)
        if not self.keys:
            parts = [self._part({}, self.entry.sd, location)]
        else:
            parts = self._registered() or self._found()
        self._check_all_found(location, parts)
        return parts

    def check_alone(self, parts: Sequence[Part]) -> None:
        """UnsupportedFeature if other tables have the same folders: their rows would go, too.

        Also for partitions behind symbolic links, which may be folders of other tables.
        """
        location = self.metastore.location(self.entry)
        _, root = open_file_io(location, self.metastore.file_options)
        linked = [p.folder for p in parts if p.folder.startswith(f"{root}/")]
        linked = [folder for folder in linked if not is_inside(Boundary(root), folder)]
        if linked:
            raise self._refused(f"{linked[0]} leads out of its folder through a symbolic link")
        outside = [p.folder for p in parts if not p.folder.startswith(f"{root}/")]
        for folder in dict.fromkeys((location, *outside)):
            place = place_of(folder)
            if place is None:
                raise self._refused(f"{folder} is not the folder of a table")
            others = self.metastore.tables_at(place, self.identifier)
            if others:
                raise self._refused(f"its folder {folder} is also that of {', '.join(others)}")

    def check_unchanged(self, parts: Sequence[Part]) -> None:
        """CommitConflict if the files are not the same as before."""
        if _by_path(self.parts()) != _by_path(parts):
            raise CommitConflict(
                f"somebody wrote to the Hive table {self.identifier} while it was migrated; the rows "
                "that it had are migrated, and it stays as it is",
                table=self.identifier,
                next_step="stop its writers and run again: files that are migrated already are not "
                "taken twice",
            )

    def delete_files(self, parts: Sequence[Part]) -> None:
        """Delete these files; other files stay, and so do the folders."""
        for part in parts:
            delete_files(part.io, [f.path for f in part.files])

    def drop(self, parts: Sequence[Part]) -> None:
        """Delete the folders, and drop the table; those of an external table stay unless empty.

        The folder goes first, for the new table cannot get its name while it is there.
        """
        folder = own_folder(self.metastore, self.entry, self.identifier)
        if folder is not None:
            io, root = folder
            io.delete_dir(root)
        if hive_tables.is_external(self.entry):
            io, root = open_file_io(
                self.metastore.location(self.entry), self.metastore.file_options
            )
            for part in parts:
                _delete_empty(part.io, part.folder, root)
            _delete_empty(io, root, root)
        self.metastore.client.call("drop_table", *hive_name(self.identifier), False)

    def format_of(self, sd: StorageDescriptor | None) -> str:
        """The format of the files; UnsupportedFeature for those that Paimon cannot take over."""
        serde = "" if sd is None or sd.serde_info is None else sd.serde_info.serialization_lib or ""
        input_format = "" if sd is None else sd.input_format or ""
        for name, usual in _FORMATS:
            if name in serde.lower() and input_format == usual:
                return name
        raise self._refused(
            f"its files are none of {', '.join(name for name, _ in _FORMATS)} (SerDe "
            f"{serde or 'unknown'}, input format {input_format or 'unknown'})"
        )

    def _registered(self) -> list[Part]:
        null = self.default_partition_name
        registry = HivePartitions(self.metastore.client, *hive_name(self.identifier))
        return [
            self._part(
                {k: None if v == null else v for k, v in spec.items()},
                partition.sd,
                hive_tables.location_of(partition, self.metastore.options) or "",
            )
            for spec, partition in registry.found()
        ]

    def _found(self) -> list[Part]:
        table = HiveFormatTables(self.metastore).find(self.identifier)
        if table is None:
            return []
        parts = []
        for partition in format_partitions(table):
            if not partition.linked:
                texts = zip(partition.texts, partition.values, strict=True)
                values = [None if value is None else text for text, value in texts]
                named = dict(zip(self.keys, values, strict=True))
                parts.append(self._part(named, self.entry.sd, partition.path))
        return parts

    def _part(
        self, values: dict[str, str | None], sd: StorageDescriptor | None, location: str
    ) -> Part:
        file_format = self.format_of(sd)
        io, folder = open_file_io(location, self.metastore.file_options)
        files = tuple(f for f in io.list_dir(folder) if not f.is_dir and not is_hidden(f.name))
        return Part(values=values, file_format=file_format, io=io, folder=folder, files=files)

    def _check_all_found(self, location: str, parts: Sequence[Part]) -> None:
        known = {f.path for part in parts for f in part.files}
        io, root = open_file_io(location, self.metastore.file_options)
        for above, folder in ((io, root), *((p.io, p.folder) for p in parts)):
            for file in shown_below(above, folder):
                if not file.is_dir and file.path not in known:
                    raise UnsupportedFeature(
                        "files that belong to no partition",
                        f"the folder of the Hive table {self.identifier} holds a file that is in no "
                        "partition of the metastore, or in a folder below one",
                        table=self.identifier,
                        file=file.path,
                        next_step="add the partition in Hive (MSCK REPAIR TABLE), or move the file "
                        "away; where UNION ALL made folders, write the partition again",
                    )

    def _refused(self, reason: str) -> UnsupportedFeature:
        return UnsupportedFeature(
            "the migration of such a Hive table",
            f"the Hive table {self.identifier} cannot be migrated: {reason}",
            table=self.identifier,
            next_step="let CREATE TABLE ... AS SELECT copy the rows in an engine that reads it",
        )


def _by_path(parts: Sequence[Part]) -> dict[str, FileStat]:
    return {f.path: f for part in parts for f in part.files}


def _delete_empty(io: FileIO, folder: str, root: str) -> None:
    """Delete the folder, and those between it and the root, as long as they are empty."""
    while folder == root or folder.startswith(f"{root}/"):
        with suppress(OSError):
            io.delete_dir(folder, recursive=False)
        folder = folder.rpartition("/")[0]
