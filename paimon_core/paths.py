"""The paths of a table's files (Java: `utils/FileStorePathFactory`, `BranchManager`).

::

    root/                                 warehouse/db.db/t
      schema/schema-0                     \
      snapshot/snapshot-1 LATEST EARLIEST  |  for a branch B, these six are under
      changelog/changelog-1 LATEST ...     |  root/branch/branch-B/ instead
      tag/tag-NAME                         |
      consumer/consumer-ID                /
      branch/branch-B/
      manifest/                           manifests, manifest lists, index manifests
      index/                              deletion vectors, hash indexes
      statistics/
      dt=2024-01-01/hh=7/bucket-0/        data, changelog and file index files

Manifests, data, indexes and statistics of all branches share the same folders.  With
`data-file.path-directory`, the partitions are in that folder below the root.  A file with an
external path is at that path, whatever the table's current options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.names import Boundary, declared_roots, lies_under, location, shown
from paimon_core.options import (
    DATA_FILE_PATH_DIRECTORY,
    INDEX_FILE_IN_DATA_FILE_DIR,
    PARTITION_DEFAULT_NAME,
    PARTITION_LEGACY_NAME,
    Options,
)
from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import RowType
from paimon_core.types.partition_text import partition_text

MAIN_BRANCH: Final = "main"
POSTPONE_BUCKET: Final = -2
SNAPSHOT_PREFIX: Final = "snapshot-"
CHANGELOG_PREFIX: Final = "changelog-"
SCHEMA_PREFIX: Final = "schema-"
TAG_PREFIX: Final = "tag-"
BRANCH_PREFIX: Final = "branch-"
CONSUMER_PREFIX: Final = "consumer-"
BUCKET_PREFIX: Final = "bucket-"
CARETAKER_DIR: Final = "caretaker"
"""The folder below a table's root for Caretaker's own files, which no Java program reads."""
_METADATA_FOLDERS: Final = frozenset(
    {
        "schema",
        "snapshot",
        "changelog",
        "tag",
        "consumer",
        "branch",
        "manifest",
        "statistics",
        CARETAKER_DIR,
    }
)
"""The folders below a table's root without data or index files."""
_COMPACTED_CHANGELOG: Final = re.compile(
    r"(compacted-changelog-[^$/.]*)\$([0-9]{1,10})-([0-9]{1,18})(?:-([0-9]{1,18})-([0-9]{1,18}))?(\.[^$/]*)?"
)

TO_ESCAPE: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{}\[\]^]""")
"""A character that `escape_path_name` replaces by three; the pattern is valid in Java, too."""
_ESCAPED: Final = re.compile("%([0-9a-fA-F]{2})")


class LocatedFile(Protocol):
    """The location fields in the metadata of a data or index file."""

    @property
    def file_name(self) -> str: ...

    @property
    def external_path(self) -> str | None: ...


class LocatedIndex(LocatedFile, Protocol):
    """The location fields in the metadata of an index file."""

    @property
    def global_index(self) -> Mapping[str, object] | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePaths:
    """The paths of one branch of a table; created by `table_paths`."""

    root: str
    branch: str = MAIN_BRANCH
    partition_type: RowType = field(default_factory=RowType)
    partition_default_name: str = PARTITION_DEFAULT_NAME.default
    partition_legacy_name: bool = PARTITION_LEGACY_NAME.default
    data_directory: str | None = None
    index_beside_data: bool = False
    limits: Boundary | None = field(default=None, compare=False, repr=False)
    """The allowed folders of files with an external path; None: only below the root."""
    _known: dict[bytes, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        # A name with a slash would give the paths of another table.
        if "/" in self.branch or "\0" in self.branch:
            raise InvalidArgument(f"the name of a branch must not hold a slash: {self.branch!r}")
        folders = (self.data_directory or "data").strip("/").split("/")
        if any(f in ("", ".", "..") or "\0" in f for f in folders):
            raise CorruptTable(
                f"the option data-file.path-directory of the table at {self.root} is not a folder "
                f"below the table: {self.data_directory!r}",
                next_step="set data-file.path-directory to a relative path without '..'",
            )

    def of_branch(self, branch: str) -> TablePaths:
        """Return the paths of another branch of the table."""
        return replace(self, branch=branch)

    @property
    def boundary(self) -> Boundary:
        """Return the folders that contain all files of the table."""
        return self.limits or Boundary(self.root)

    # --- metadata of this branch ---

    @property
    def branch_root(self) -> str:
        """Return the folder of this branch's metadata."""
        return self.root if self.branch == MAIN_BRANCH else self.branch_dir(self.branch)

    @property
    def schema_dir(self) -> str:
        return f"{self.branch_root}/schema"

    def schema(self, schema_id: int) -> str:
        return f"{self.schema_dir}/{SCHEMA_PREFIX}{schema_id}"

    @property
    def snapshot_dir(self) -> str:
        return f"{self.branch_root}/snapshot"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.snapshot_dir}/{SNAPSHOT_PREFIX}{snapshot_id}"

    @property
    def changelog_dir(self) -> str:
        return f"{self.branch_root}/changelog"

    def changelog(self, snapshot_id: int) -> str:
        return f"{self.changelog_dir}/{CHANGELOG_PREFIX}{snapshot_id}"

    @property
    def tag_dir(self) -> str:
        return f"{self.branch_root}/tag"

    def tag(self, name: str) -> str:
        return f"{self.tag_dir}/{TAG_PREFIX}{name}"

    @property
    def tag_success_dir(self) -> str:
        """Return the folder of tag success files (Java: `SuccessFileTagCallback`)."""
        return f"{self.tag_dir}/tag-success-file"

    @property
    def consumer_dir(self) -> str:
        return f"{self.branch_root}/consumer"

    def consumer(self, consumer_id: str) -> str:
        return f"{self.consumer_dir}/{CONSUMER_PREFIX}{consumer_id}"

    # --- shared by all branches ---

    @property
    def branches_dir(self) -> str:
        return f"{self.root}/branch"

    def branch_dir(self, branch: str) -> str:
        return f"{self.branches_dir}/{BRANCH_PREFIX}{branch}"

    @property
    def manifest_dir(self) -> str:
        return f"{self.root}/manifest"

    def manifest(self, name: str) -> str:
        """Return the path of a manifest, manifest list or index manifest."""
        return f"{self.manifest_dir}/{name}"

    @property
    def statistics_dir(self) -> str:
        return f"{self.root}/statistics"

    def statistics(self, name: str) -> str:
        return f"{self.statistics_dir}/{name}"

    @property
    def index_dir(self) -> str:
        return f"{self.root}/index"

    def index(self, name: str) -> str:
        return f"{self.index_dir}/{name}"

    def index_file(self, partition: bytes, bucket: int, file: LocatedIndex) -> str:
        """Return the path of an index file of a bucket, or of a global index."""
        if file.external_path is not None:
            return self._external(file)
        if self.index_beside_data and file.global_index is None:
            return f"{self.bucket_dir(partition, bucket)}/{file.file_name}"
        return self.index(file.file_name)

    # --- data ---

    @property
    def data_root(self) -> str:
        """Return the folder of the partitions, or of the buckets of an unpartitioned table."""
        return f"{self.root}/{self.data_directory}" if self.data_directory else self.root

    def partition_values(self, partition: bytes) -> dict[str, str]:
        """Return partition key -> value as text, as in the path before escaping.

        Null, empty and blank values all become the default name, so the text does not identify a
        partition.
        """
        fields = self.partition_type.fields
        values = decode_row(partition, self.partition_type.types)
        return {
            f.name: partition_text(value, f.type, legacy_name=self.partition_legacy_name)
            or self.partition_default_name
            for f, value in zip(fields, values, strict=True)
        }

    def partition_path(self, partition: bytes) -> str:
        """Return a partition's folders ("dt=2024-01-01/hh=7"), "" for an unpartitioned table."""
        known = self._known.get(partition)
        if known is None:
            known = spec_path(self.partition_values(partition))
            self._known[partition] = known
        return known

    def partition_dir(self, partition: bytes) -> str:
        path = self.partition_path(partition)
        return f"{self.data_root}/{path}" if path else self.data_root

    def bucket_dir(self, partition: bytes, bucket: int) -> str:
        return f"{self.partition_dir(partition)}/{bucket_name(bucket)}"

    def relative_bucket_dir(self, partition: bytes, bucket: int) -> str:
        """Return the bucket's folder relative to the table's folder."""
        return self.bucket_dir(partition, bucket)[len(self.root) + 1 :]

    def data_file(self, partition: bytes, bucket: int, file: LocatedFile) -> str:
        """Return the path of a data or changelog file; CorruptTable if it is outside the table."""
        if file.external_path is not None:
            return self._external(file)
        return f"{self.bucket_dir(partition, bucket)}/{file.file_name}"

    def extra_file(self, partition: bytes, bucket: int, file: LocatedFile, name: str) -> str:
        """Return the path of a file's extra file (index or changelog), in the same folder."""
        if file.external_path is not None:
            return f"{self._external(file).rsplit('/', 1)[0]}/{name}"
        return f"{self.bucket_dir(partition, bucket)}/{name}"

    def _external(self, file: LocatedFile) -> str:
        """Return the external path of a file; CorruptTable if it cannot be that of a file's.

        Which files are needed is decided by their names, so a path that ends with another one could
        name any file of the table.  Metadata never has an external path.
        """
        path = self.boundary.checked(file.external_path or "")
        place, root = location(path), location(self.root)
        own = place is not None and root is not None and lies_under(place, root)
        if place is None or place[1][-1] != file.file_name:
            problem = f"is not the path of a file named {shown(file.file_name)}"
        elif own and root is not None and place[1][len(root[1])] in _METADATA_FOLDERS:
            problem = "lies among the metadata of the table"
        else:
            return path
        raise CorruptTable(
            f"the external path {shown(path)} of a file of the table at {self.root} {problem}",
            file=path,
            next_step="nothing was changed there; run `caretaker verify` on the table",
        )

    def __reduce__(self) -> tuple[object, ...]:
        # The path cache is not copied.
        values = {n: getattr(self, n) for n in self.__slots__ if n != "_known"}
        return (_rebuild, (values,))


def _rebuild(values: dict[str, object]) -> TablePaths:
    return TablePaths(**values)  # type: ignore[arg-type]  # what __reduce__ gave


def is_hidden(name: str) -> bool:
    """Return whether readers pass over files and folders of this name, as Hive and Spark do."""
    return name.startswith(("_", "."))


def is_table_folder(name: str) -> bool:
    """Return whether folders of this name belong to a table that is around them."""
    return name in _METADATA_FOLDERS or name == "index" or name.startswith(BUCKET_PREFIX)


def table_paths(
    root: str,
    partition_type: RowType,
    options: Options,
    *,
    branch: str = MAIN_BRANCH,
    limits: Boundary | None = None,
) -> TablePaths:
    """Return the paths of a table whose schema has these partition fields and options."""
    return TablePaths(
        root=root,
        branch=branch,
        partition_type=partition_type,
        partition_default_name=options.value(PARTITION_DEFAULT_NAME),
        partition_legacy_name=options.value(PARTITION_LEGACY_NAME),
        data_directory=options.value(DATA_FILE_PATH_DIRECTORY),
        index_beside_data=options.value(INDEX_FILE_IN_DATA_FILE_DIR),
        limits=limits or Boundary(root, declared_roots(options)),
    )


def table_root_of(path: str) -> str:
    """Return the root of the table that a metadata file of any branch belongs to.

    For files one folder below the root of the table or of a branch, and all in `caretaker/`.
    """
    root, caretaker, _ = path.partition(f"/{CARETAKER_DIR}/")
    if caretaker:
        return root
    parts = path.split("/")[:-2]
    if len(parts) > 2 and parts[-2] == "branch" and parts[-1].startswith(BRANCH_PREFIX):
        parts = parts[:-2]
    return "/".join(parts)


def bucket_name(bucket: int) -> str:
    """Return the folder of a bucket: "bucket-3", and "bucket-postpone" for -2."""
    return f"{BUCKET_PREFIX}{'postpone' if bucket == POSTPONE_BUCKET else bucket}"


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A byte range of a file: its path, offset and length."""

    path: str
    offset: int
    length: int


def compacted_changelog(path: str) -> FileSlice | None:
    """Return the byte range of a changelog file that Flink joined with others.

    None for other files.

    Java: `CompactedChangelogPathResolver`; java-rules F6.  Changelog files of several buckets are
    concatenated in the first bucket's folder.  `compacted-changelog-UUID$1-1024.cc-orc` is the
    first 1024 bytes of bucket 1's file of that name, `...$1-1024-4096-512.cc-orc`, in any bucket,
    the 512 bytes from 4096 on of the same file.
    """
    folder, _, name = path.rpartition("/")
    found = _COMPACTED_CHANGELOG.fullmatch(name)
    if found is None:
        return None
    prefix, bucket, first, offset, length, ending = found.groups()
    if offset is None:
        return FileSlice(path, 0, int(first))
    buckets = folder.rpartition("/")[0]
    real = f"{buckets}/{bucket_name(int(bucket))}/{prefix}${bucket}-{first}{ending or ''}"
    return FileSlice(real, int(offset), int(length))


def spec_path(values: Mapping[str, str]) -> str:
    """Return the folders of a partition given as text, with names and values escaped."""
    return "/".join(f"{escape_path_name(k)}={escape_path_name(v)}" for k, v in values.items())


def escape_path_name(text: str) -> str:
    """Return the text with every forbidden path character as %XX (java-rules G6)."""
    return TO_ESCAPE.sub(lambda m: f"%{ord(m.group()):02X}", text)


def unescape_path_name(text: str) -> str:
    """Reverse `escape_path_name`; a stray % stays unchanged."""
    return _ESCAPED.sub(lambda m: chr(int(m.group(1), 16)), text)
