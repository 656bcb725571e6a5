"""Quarantined files: `caretaker/quarantine/ID/manifest.json`, and the files under their paths.

The manifest is written first, so every file in a quarantine can be restored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import pyarrow as pa

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO, FileStat, map_parallel
from paimon_core.io.json_text import parse_json_object
from paimon_core.io.local import LARGEST_WHOLE
from paimon_core.io.read_retry import read_with_retries
from paimon_core.names import is_file_name, location, shown
from paimon_core.reachability.mentioned import Mentioned
from paimon_core.reachability.name_set import NameSet
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Effect, Loss, LossKind, Retained
from paimon_maintenance.job.text import counted, human_bytes, path_text
from paimon_maintenance.storage.bulk import delete_paths

QUARANTINES: Final = "caretaker/quarantine"
_MANIFEST: Final = "manifest.json"
_AS_NAMES: Final = ("utf-8", "surrogateescape")
"""A local name need not be UTF-8; the manifest holds its bytes as they are."""
_FILES_A_FENCE: Final = 1_000
"""Number of files to move between two checks of the lease."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The content of a quarantine: paths relative to the table root, and sizes."""

    id: str
    files: Mapping[str, int]


Plan = MetadataPlan[Quarantine]


def folder_of(table: FileStoreTable, quarantine_id: str) -> str:
    """The folder of a quarantine."""
    return f"{table.root}/{QUARANTINES}/{quarantine_id}"


def move_aside(
    table: FileStoreTable, quarantine_id: str, files: Sequence[FileStat], context: RunContext
) -> int:
    """Move the files to the quarantine and return their number; skips missing files."""
    root = f"{table.root}/"
    content = {"files": {f.path.removeprefix(root): f.size for f in files}}
    target = folder_of(table, quarantine_id)
    context.fence()
    text = json.dumps(content, indent=1, ensure_ascii=False)
    table.io.overwrite(f"{target}/{_MANIFEST}", text.encode(*_AS_NAMES))

    def move(file: FileStat) -> bool:
        try:
            return table.io.rename(file.path, f"{target}/{file.path.removeprefix(root)}")
        except FileNotFoundError:
            return False

    moved = 0
    for start in range(0, len(files), _FILES_A_FENCE):
        context.fence()
        moved += sum(map_parallel(table.io, move, files[start : start + _FILES_A_FENCE]))
    return moved


def _read(table: FileStoreTable, arguments: Mapping[str, object]) -> Quarantine:
    quarantine_id = cast("str | None", arguments.get("quarantine"))
    known = sorted(f.name for f in table.io.list_dir(f"{table.root}/{QUARANTINES}") if f.is_dir)
    if not known:
        raise NotFound(
            f"table {table.name} has no quarantine",
            table=table.name,
            next_step="run remove_orphan_files with mode=quarantine to create one",
        )
    if not quarantine_id or not is_file_name(quarantine_id):
        raise InvalidArgument(
            f"argument --quarantine is required (known ids: {', '.join(known)})",
            table=table.name,
        )
    path = f"{folder_of(table, quarantine_id)}/{_MANIFEST}"

    def parse(content: bytes) -> dict[str, int]:
        files = parse_json_object(content.decode(*_AS_NAMES))["files"]
        if not isinstance(files, Mapping):
            raise TypeError(f"files is not an object: {shown(files)}")
        return {_relative(str(path)): int(str(size)) for path, size in files.items()}

    try:
        files = read_with_retries(table.io, path, parse, table=table.name, most=LARGEST_WHOLE)
    except FileNotFoundError as e:
        raise NotFound(
            f"table {table.name} has no quarantine {quarantine_id!r} "
            f"(known ids: {', '.join(known)})",
            table=table.name,
            next_step="pass one of these ids; remove_orphan_files with mode=quarantine creates them",
        ) from e
    return Quarantine(quarantine_id, files)


def _relative(path: str) -> str:
    """A path below the table root; ValueError for any other path."""
    if path.startswith("/") or "//" in path or location(f"/{path}") is None:
        raise ValueError(f"not a path below the table folder: {shown(path)}")
    return path


def _plan(
    job: str,
    verb: str,
    table: FileStoreTable,
    found: Quarantine,
    arguments: Mapping[str, object],
    *,
    deletes: bool = False,
    kept: Sequence[Retained] = (),
) -> Plan:
    size = sum(found.files.values())
    action = Action(
        f"{verb} {counted(len(found.files), 'files')} of quarantine {found.id}", human_bytes(size)
    )
    return MetadataPlan(
        job=job,
        table=table.name,
        pin=latest_pin(table),
        work=found,
        actions=(action,) if found.files or not kept else (),
        kept=tuple(kept),
        effect=Effect(
            deleted_files=len(found.files),
            deleted_bytes=size,
            losses=(Loss(LossKind.FILES, len(found.files)), Loss(LossKind.BYTES, size)),
        )
        if deletes
        else Effect(),
        arguments=arguments,
    )


def make_restore(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The files to restore."""
    found = _read(table, arguments)
    return _plan("restore_orphan_files", "put back", table, found, arguments)


def apply_restore(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Move the files back, then delete the quarantine, unless it holds files that nothing names."""
    source = folder_of(table, plan.work.id)
    restored, there = 0, []
    for path in plan.work.files:
        context.fence()
        try:
            if table.io.rename(f"{source}/{path}", f"{table.root}/{path}"):
                restored += 1
            else:
                there.append(path)
        except FileNotFoundError:
            continue
    # An incomplete manifest must not cost the files that it does not name.
    known = {f"{source}/{path}" for path in (_MANIFEST, *there)}
    unnamed = sorted(_files_below(table.io, source) - known)
    if not there and not unnamed:
        context.fence()
        table.io.delete_dir(source)
    details: dict[str, object] = {
        "restored_files": restored,
        "already_there": [path_text(path) for path in there],
    }
    if unnamed:
        details["unnamed"] = [path_text(path.removeprefix(f"{source}/")) for path in unnamed]
    return Committed(details=details)


def _files_below(io: FileIO, folder: str) -> set[str]:
    """The files and links in a folder and the folders below it."""
    found = io.list_dir(folder)
    folders = [f.path for f in found if f.is_dir and not f.is_link]
    files = {f.path for f in found if f.is_link or not f.is_dir}
    return files.union(*(_files_below(io, path) for path in folders))


def make_purge(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The files to delete permanently, without those that a version of the table needs."""
    found = _read(table, arguments)
    going = _unneeded(table, found)
    needed = found.files.keys() - going.files.keys()
    why = "a version of the table needs them; restore_orphan_files puts them back"
    size = sum(found.files[path] for path in needed)
    kept = [Retained(what="files", why=why, count=len(needed), bytes=size)] if needed else ()
    return _plan("purge_orphan_files", "delete", table, going, arguments, deletes=True, kept=kept)


def _unneeded(table: FileStoreTable, found: Quarantine) -> Quarantine:
    """The quarantine without the files that a version of the table names and does not have.

    A commit that began long before the quarantine may have named them since.
    """
    paths = list(found.files)
    names = pa.array([p.rsplit("/", 1)[-1].encode(*_AS_NAMES) for p in paths], pa.large_binary())
    mentioned = Mentioned(table, NameSet(names))
    mentioned.look()
    is_free = mentioned.candidates.left(names).tolist()
    named = [path for path, free in zip(paths, is_free, strict=True) if not free]
    there = map_parallel(table.io, lambda path: table.io.exists(f"{table.root}/{path}"), named)
    needed = {path for path, exists in zip(named, there, strict=True) if not exists}
    return replace(found, files={p: size for p, size in found.files.items() if p not in needed})


def recheck_purge(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan without files that a version of the table needs by now."""
    return replace(plan, work=_unneeded(table, plan.work))


def apply_purge(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Delete the files, then the folder with the manifest, unless it holds other files."""
    source = folder_of(table, plan.work.id)
    paths = [f"{source}/{path}" for path in plan.work.files]
    deleted = sum(delete_paths(table, paths, context))
    left = sorted(_files_below(table.io, source) - {f"{source}/{_MANIFEST}"})
    if not left:
        context.fence()
        table.io.delete_dir(source)
    details: dict[str, object] = {
        "deleted_files": deleted,
        "deleted_bytes": sum(plan.work.files.values()),
    }
    if left:
        details["kept"] = [path_text(path.removeprefix(f"{source}/")) for path in left]
    return Committed(details=details)


RESTORE: Final = metadata_steps(make_restore, apply_restore)
PURGE: Final = metadata_steps(make_purge, apply_purge, recheck=recheck_purge)
