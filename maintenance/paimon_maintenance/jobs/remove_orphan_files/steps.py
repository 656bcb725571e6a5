"""remove_orphan_files (Java: `OrphanFilesClean`; docs/architecture.md, "Rules for deleting").

Lists the candidates first and reads the references afterwards, so that files committed in between
are referenced (apache/paimon #3074).  Sizes and times that a listing does not have are read last,
of what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, cast

import numpy as np

from paimon_core.environment import local_clock
from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_stats import Column, FileStats
from paimon_core.reachability.known_kinds import is_index
from paimon_core.reachability.lost_history import check_history
from paimon_core.reachability.mentioned import Mentioned
from paimon_core.reachability.name_set import NameSet
from paimon_core.reachability.references import all_references
from paimon_core.reachability.release import (
    delete_empty_folders,
    finish_interrupted,
    journals,
)
from paimon_core.types.datetimes import wall_clock_text
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Effect, Loss, LossKind, Retained, SnapshotPin
from paimon_maintenance.job.text import counted, human_bytes, path_text
from paimon_maintenance.jobs.remove_orphan_files.candidates import (
    Candidates,
    check_no_table,
    external_roots,
    find_candidates,
)
from paimon_maintenance.jobs.remove_orphan_files.quarantine import move_aside
from paimon_maintenance.jobs.remove_orphan_files.states import with_states
from paimon_maintenance.jobs.remove_orphan_files.unchanged import unchanged
from paimon_maintenance.rules.times import parse_older_than
from paimon_maintenance.storage.bulk import delete_paths

LEAST_AGE_MILLIS: Final = 86_400_000
MOST_FOLDERS: Final = 3
DELETED_TOGETHER: Final = 100_000
"""Number of files whose paths are in memory while they are deleted."""
MOST_NAMED: Final = 1000
"""Maximum number of paths in the JSON of a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """The files to remove, their target, and the journals of interrupted runs to finish.

    `unknown` are the paths of the first files that stay because their kind is unknown,
    `folder_sizes` the number of entries in the folders of `files`.
    """

    files: FileStats
    empty_folders: tuple[str, ...] = ()
    quarantine: bool = False
    interrupted: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    mentioned: Mentioned | None = field(default=None, compare=False, repr=False)
    folder_sizes: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)


Plan = MetadataPlan[Orphans]


def make(table: FileStoreTable, arguments: Mapping[str, object], context: RunContext) -> Plan:
    """The files that are old enough and unreferenced."""
    older_than = _older_than(table, arguments, context)
    quarantine = arguments.get("mode") == "quarantine"
    external = external_roots(table) if arguments.get("external_paths") else ()
    if external and quarantine:
        raise InvalidArgument(
            "files outside the table folder cannot be quarantined",
            table=table.name,
            next_step="use mode=delete, or do not set external_paths",
        )
    check_no_table(table, external)
    found = find_candidates(
        table,
        older_than,
        context,
        external,
    )
    referenced = len(found.files)
    mentioned = Mentioned(table, NameSet(found.files.names))
    references = mentioned.look()
    if (mentioned.newest is None or mentioned.tags_alone) and len(found.files):
        check_history(table, all_references(table))
    found = found.unmentioned(mentioned)
    referenced -= len(found.files)
    found = with_states(table, found, older_than, context)
    files = found.files
    is_unknown = found.unknown(unknown_kinds=bool(arguments.get("unknown_kinds")))
    unknown = files.take(np.flatnonzero(is_unknown)).by_folder()
    is_unsure = _unsure_indexes(files, ~is_unknown, mentioned)
    is_orphan = ~is_unknown & ~is_unsure
    orphans = files.take(np.flatnonzero(is_orphan)).by_folder()
    used = np.flatnonzero(orphans.folder_totals()[0]).tolist()
    actions = _actions(table, orphans, found.empty_folders, quarantine=quarantine)
    # Files of interrupted runs are deleted, not quarantined.
    interrupted = () if quarantine else tuple(journals(table))
    if interrupted:
        actions.append(Action(f"finish {counted(len(interrupted), 'interrupted runs')}"))
    why = f"referenced by {counted(references, 'versions')} (snapshots, tags, changelogs)"
    kept = [
        Retained(what="files", why=why, count=referenced),
        *_kept(found, unknown, is_unsure, mentioned, local_clock(older_than, context.env)),
    ]
    return MetadataPlan(
        job="remove_orphan_files",
        table=table.name,
        pin=_pin(table, mentioned),
        work=Orphans(
            files=orphans,
            empty_folders=tuple(found.empty_folders),
            quarantine=quarantine,
            interrupted=interrupted,
            unknown=tuple(path_text(f.path) for f in unknown[:MOST_NAMED]),
            mentioned=mentioned,
            folder_sizes={files.folders[i]: int(found.entries[i]) for i in used},
        ),
        actions=tuple(actions),
        kept=tuple(k for k in kept if k.count),
        effect=_effect(found, is_orphan),
        arguments=arguments,
        details={
            "orphans": [path_text(f.path) for f in orphans[:MOST_NAMED]],
            "unknown": [path_text(f.path) for f in unknown[:MOST_NAMED]],
        },
    )


def _kept(
    found: Candidates,
    unknown: FileStats,
    is_unsure: Column,
    mentioned: Mentioned,
    local_millis: int,
) -> Iterator[Retained]:
    """What stays although no reference mentions it, and what was not looked at."""
    why = f"not older than {wall_clock_text(local_millis)}"
    yield Retained(what="files", why=why, count=found.young)
    yield Retained(
        what="files of unknown kinds",
        why="no reference mentions them, but a newer version of Paimon may need them; "
        "unknown_kinds removes them",
        count=len(unknown),
        bytes=int(unknown.sizes.sum()),
    )
    yield Retained(
        what="index files",
        why=f"the index manifest {mentioned.cut_index} ends like one that has lost entries",
        count=int(is_unsure.sum()),
        bytes=int(found.files.sizes[is_unsure].sum()),
    )
    yield Retained(what="links", why="symbolic links are not followed", count=found.links)


def _unsure_indexes(files: FileStats, chosen: Column, mentioned: Mentioned) -> Column:
    """Marks the index files among the `chosen`, if an index manifest may have lost entries.

    Nothing else tells which index files it named.
    """
    found = np.zeros(len(files), bool)
    if mentioned.cut_index is not None:
        at = np.flatnonzero(chosen)
        found[at] = [is_index(file.name) for file in files.take(at)]
    return found


def _pin(table: FileStoreTable, mentioned: Mentioned) -> SnapshotPin | None:
    """The pin of the newest snapshot; not read if the catalog knows it, or if no file is old."""
    if mentioned.newest is None or table.snapshots.owner is not None:
        return latest_pin(table)
    return SnapshotPin.of(mentioned.newest)


def _effect(found: Candidates, is_orphan: Column) -> Effect:
    """The effect relative to all listed files, separately for data files and other files."""
    sizes = found.files.sizes
    data = is_orphan & found.is_data
    return Effect(
        deleted_files=int(is_orphan.sum()),
        deleted_bytes=int(sizes[is_orphan].sum()),
        table_files=found.data_files,
        table_bytes=found.data_bytes,
        losses=(
            Loss(LossKind.FILES, int(data.sum()), found.data_files),
            Loss(LossKind.BYTES, int(sizes[data].sum()), found.data_bytes),
            Loss(LossKind.METADATA, int((is_orphan & ~data).sum()), found.metadata_files),
        ),
    )


def _older_than(table: FileStoreTable, arguments: Mapping[str, object], context: RunContext) -> int:
    """The time before which files count as old; InvalidArgument if it is less than one day ago.

    Paimon once accepted a time in the future and deleted files of running writers
    (apache/paimon #4779).
    """
    text = cast("str | None", arguments.get("older_than"))
    if text is None:
        return context.env.now_millis() - LEAST_AGE_MILLIS
    chosen = parse_older_than(text, context.env)
    now = context.env.now_millis()  # not before an age was counted from it: "1 d" is a day ago
    if chosen > now:
        raise InvalidArgument(f"older_than {text!r} is in the future", table=table.name)
    if chosen > now - LEAST_AGE_MILLIS and not arguments.get("allow_young"):
        raise InvalidArgument(
            f"older_than {text!r} is less than one day ago: files of running writers would count "
            "as orphans",
            table=table.name,
            next_step="use an earlier time, or stop all writers and set allow_young",
        )
    return chosen


def _actions(
    table: FileStoreTable, orphans: FileStats, folders: Sequence[str], *, quarantine: bool
) -> list[Action]:
    verb = "move aside" if quarantine else "delete"
    counts, sizes = orphans.folder_totals()
    places = np.flatnonzero(counts).tolist()
    actions = []
    for i in sorted(places, key=lambda i: (-counts[i], orphans.folders[i])):
        folder, count, size = orphans.folders[i], int(counts[i]), int(sizes[i])
        folder = path_text("" if folder == table.root else folder.removeprefix(f"{table.root}/"))
        actions.append(
            Action(
                f"{verb} {counted(count, 'files')} in {folder}",
                human_bytes(size),
                {"folder": folder, "files": count, "bytes": size},
            )
        )
    if folders:
        names = [path_text(folder.removeprefix(f"{table.root}/")) for folder in folders]
        shown_folders = ", ".join(names[:MOST_FOLDERS]) + (", ..." if names[MOST_FOLDERS:] else "")
        what = f"delete {counted(len(folders), 'empty folders')}"
        actions.append(Action(what, shown_folders, {"folders": names[:MOST_NAMED]}))
    return actions


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan without files that were committed or modified after it."""
    work = plan.work
    if work.mentioned is None:
        return plan
    left = _unmentioned(work.files, work.mentioned)
    return replace(plan, work=replace(work, files=unchanged(table.io, left, work.folder_sizes)))


def _unmentioned(files: FileStats, mentioned: Mentioned) -> FileStats:
    """Read the references that are new; the files that none of them mentions."""
    mentioned.look()
    is_left = mentioned.candidates.left(files.names)
    is_left &= ~_unsure_indexes(files, is_left, mentioned)
    return files.take(np.flatnonzero(is_left))


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Delete or move the files, then delete empty folders."""
    work = plan.work
    details: dict[str, object] = {}
    word, name = "deleted", None
    if work.interrupted:
        context.fence()
        details["finished"] = finish_interrupted(
            table, work.interrupted, delete=partial(delete_paths, context=context)
        ).to_json()
    if work.quarantine and work.files:
        name = wall_clock_text(context.env.local_millis())
        name = name.replace("-", "").replace(":", "").replace(" ", "-")
        name = f"{name}-{context.env.new_uuid()[:8]}"
        done = move_aside(table, name, work.files, context)
        details["quarantine"] = name
        word = "moved"
    else:
        done = 0
        for start in range(0, len(work.files), DELETED_TOGETHER):
            part = work.files[start : start + DELETED_TOGETHER]
            if start and work.mentioned is not None:
                part = _unmentioned(part, work.mentioned)  # the part before took its time
            done += sum(delete_paths(table, [f.path for f in part], context))
    _check_not_needed(table, work, quarantine=name)
    folders = 0
    if not work.quarantine:
        for root in (table.paths.data_root, *external_roots(table)):
            folders += delete_empty_folders(table.io, work.empty_folders, stop_at=root)
    return Committed(
        details={
            **details,
            **({"files_of_unknown_kinds": list(work.unknown[:MOST_NAMED])} if work.unknown else {}),
            f"{word}_files": done,
            f"{word}_bytes": int(work.files.sizes.sum()),
            "deleted_folders": folders,
        }
    )


def _check_not_needed(table: FileStoreTable, work: Orphans, *, quarantine: str | None) -> None:
    """CorruptTable if a commit needs files that were removed: it landed after the last look.

    No look can be late enough for a writer that holds files back for longer than `older_than`.
    """
    if work.mentioned is None or not len(work.files):
        return
    work.mentioned.look()
    needed = work.files.take(np.flatnonzero(~work.mentioned.candidates.left(work.files.names)))
    needed = needed.take(
        np.array([i for i, f in enumerate(needed) if not table.io.exists(f.path)], np.int64)
    )
    if len(needed):
        newest = table.snapshots.latest()
        undo = f"run restore_orphan_files with quarantine {quarantine}"
        raise CorruptTable(
            f"a commit to table {table.name} needs {counted(len(needed), 'files')} that nothing "
            f"mentioned right before they were {'moved' if quarantine else 'deleted'}, such as "
            f"{needed[0].path}: its writer held back files that are older than older_than",
            table=table.name,
            file=needed[0].path,
            snapshot=None if newest is None else newest.id,
            next_step=f"{undo if quarantine else 'roll back that commit, and write its rows again'}; "
            "then raise older_than above the time that writers take from a file to its commit",
        )


STEPS: Final = metadata_steps(make, apply, recheck=recheck)
