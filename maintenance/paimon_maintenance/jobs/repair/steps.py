"""repair: verifies the table, then runs the requested repairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

from paimon_core.errors import CorruptTable, NotFound, PaimonError
from paimon_core.features import check_committable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.lsm.engines.traits import traits_of
from paimon_core.options import DELETION_VECTORS_ENABLED
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_maintenance.job.effects import live_effect
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Effect, Retained, SnapshotPin
from paimon_maintenance.jobs.repair.definition import SAFE
from paimon_maintenance.jobs.repair.fixes import (
    ConsumerFix,
    Fix,
    HintFix,
    LostFilesFix,
    OverlapFix,
    ReferenceFix,
    SizesFix,
    overlapping,
    place,
    reference_content,
    with_true_sizes,
)
from paimon_maintenance.jobs.repair.gap import gap_fixes
from paimon_maintenance.jobs.repair.lost_files import lost_files
from paimon_maintenance.jobs.repair.stale_vectors import VectorsFix, live_names, stale_vectors
from paimon_maintenance.verify.check import Scope, check_table
from paimon_maintenance.verify.findings import Finding, Problem, Repair, Severity
from paimon_maintenance.verify.references import RefKind, branches_of

Plan = MetadataPlan[tuple[Fix, ...]]

_BY_HAND: Final[Mapping[Repair, str]] = {
    Repair.ROLL_BACK: "roll back to an earlier snapshot (see rollback), or let this one expire",
    Repair.RESCALE: "stop the writer with the old bucket number, then rescale the partition",
    Repair.DROP_VECTORS: "the newest snapshot is not affected: let the older ones expire",
    Repair.COMPACT_MANIFEST: "run compact_manifest to rewrite the manifests",
    Repair.REMOVE_UNEXISTING_FILES: "the newest snapshot does not need it: let the older ones expire",
}


_OF_LIVE_FILES: Final = (
    Problem.MISSING_DATA_FILE,
    Problem.KEY_OVERLAP,
    Problem.VECTOR_WITHOUT_FILE,
)
_LOST_METADATA: Final = (
    Problem.MISSING_MANIFEST_LIST,
    Problem.MISSING_MANIFEST,
    Problem.MISSING_INDEX_MANIFEST,
)


def make(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The requested fixes, and the remaining findings."""
    wanted = _wanted(arguments)
    findings = check_table(table, Scope(rows=False)).findings
    fixes: list[Fix] = []
    effects: list[Effect] = []
    kept: list[Retained] = []
    handled: set[int] = set()
    for branch in branches_of(table):
        own = [f for f in findings if f.branch == branch.branch]
        for fix, answered in _fixes(branch, own, effects, kept):
            handled.update(id(f) for f in answered)
            if str(fix.repair) in wanted:
                fixes.append(fix)
            else:
                kept += [
                    Retained(what=a.what, why=f"not requested: add --repair {fix.repair}")
                    for a in fix.actions()
                ]
    kept += _left([f for f in findings if id(f) not in handled])
    if not findings:
        kept.append(Retained(what="everything", why="verify finds no problems", count=0))
    asked = Repair.REMOVE_UNEXISTING_FILES in wanted
    return MetadataPlan(
        job="repair",
        table=table.name,
        pin=_pin(table),
        work=tuple(fixes),
        actions=tuple(a for fix in fixes for a in fix.actions()),
        kept=tuple(kept),
        effect=max(effects, key=_share) if effects and asked else Effect(),
        arguments=arguments,
        details={"findings": [f.to_json() for f in findings]},
    )


def _pin(table: FileStoreTable) -> SnapshotPin | None:
    try:
        return latest_pin(table)
    except CorruptTable:
        return None  # that is what is to be repaired


def _wanted(arguments: Mapping[str, object]) -> frozenset[str]:
    return frozenset(cast("Sequence[str]", arguments.get("repairs") or SAFE))


def _share(effect: Effect) -> float:
    return effect.deleted_files / (effect.table_files or 1)


def _left(findings: Sequence[Finding]) -> Iterator[Retained]:
    """The findings without a fix, grouped by reason."""
    counts = Counter((f.problem, f.repair) for f in findings if f.severity is not Severity.INFO)
    for (problem, repair), count in counts.items():
        first = next(f for f in findings if f.problem is problem and f.repair is repair)
        way = "no automatic repair" if repair is None else _BY_HAND.get(repair, str(repair))
        if repair is Repair.DELETE_REFERENCE and problem in _LOST_METADATA:
            way = "the newest snapshot lacks files as well: mount or restore the storage first"
        yield Retained(what=f"{problem}: {first.message}", why=way, count=count)


# --- from findings to fixes ---------------------------------------------------------------------


def _fixes(
    branch: FileStoreTable, findings: Sequence[Finding], effects: list[Effect], kept: list[Retained]
) -> Iterator[tuple[Fix, list[Finding]]]:
    """Each fix with its findings."""
    yield from _of_references(branch, findings)
    data = [f for f in findings if f.problem in _OF_LIVE_FILES]
    if not data:
        return
    try:
        latest = branch.latest_or_not_found()
        check_committable(branch)
        live = scan_files(branch, latest)
    except PaimonError as e:
        what = f"{len(data)} findings about data files{place(branch)}"
        kept.append(Retained(what=what, why=f"the newest snapshot cannot be repaired: {e.message}"))
        return
    missing = [f for f in data if f.problem is Problem.MISSING_DATA_FILE]
    lost = lost_files(branch, live) if missing else []
    if lost:
        effects.append(live_effect(lost, live, exact=True))
        paths = {branch.paths.data_file(e.partition, e.bucket, e.file) for e in lost}
        answered = [f for f in missing if f.file in paths]
        yield LostFilesFix(branch=branch, lost=tuple(lost)), answered
    overlaps = [f for f in data if f.problem is Problem.KEY_OVERLAP and f.snapshot == latest.id]
    if overlaps and _reads_level_0(branch, kept):
        gone = {e.identity for e in lost}
        files = [e for e in overlapping(branch, live) if e.identity not in gone]
        if files:
            yield OverlapFix(branch=branch, files=tuple(files)), overlaps
    vectors = [f for f in data if f.problem is Problem.VECTOR_WITHOUT_FILE]
    stale = stale_vectors(vector_files(branch, latest), live_names(live)) if vectors else ()
    if stale:
        answered = [f for f in vectors if f.snapshot == latest.id]
        yield VectorsFix(branch=branch, stale=stale), answered


def _reads_level_0(branch: FileStoreTable, kept: list[Retained]) -> bool:
    """Whether rows stay visible when files move to level 0 (java-rules G1)."""
    options = branch.options
    if (
        traits_of(options).skips_level_0
        or options.value(DELETION_VECTORS_ENABLED)
        or changelog_producer_of(options).by_compaction
    ):
        why = "readers of this table skip level 0: roll back to an earlier snapshot"
        kept.append(Retained(what="files with overlapping keys", why=why))
        return False
    return True


def _of_references(
    branch: FileStoreTable, findings: Sequence[Finding]
) -> Iterator[tuple[Fix, list[Finding]]]:
    for finding in findings:
        if finding.repair is Repair.REWRITE_HINT and finding.file is not None:
            yield HintFix(branch=branch, path=finding.file, why=finding.message), [finding]
        elif finding.problem is Problem.SNAPSHOT_GAP:
            for fix in gap_fixes(branch, branch.snapshots.ids(), finding.message):
                if fix.gap.after == finding.snapshot:
                    yield fix, [finding]
        elif finding.problem in (Problem.STALE_CONSUMER, Problem.CONSUMER_AHEAD):
            with suppress(NotFound, CorruptTable):
                consumer = branch.consumers.get((finding.reference or "").removeprefix("consumer "))
                yield ConsumerFix(branch=branch, consumer=consumer, why=finding.message), [finding]
    yield from _of_sizes(branch, findings)
    yield from _of_broken_references(branch, findings)


def _of_sizes(
    branch: FileStoreTable, findings: Sequence[Finding]
) -> Iterator[tuple[Fix, list[Finding]]]:
    wrong = [f for f in findings if f.problem is Problem.WRONG_SIZE and f.snapshot is not None]
    for snapshot_id in sorted({f.snapshot for f in wrong if f.snapshot is not None}):
        snapshot = branch.snapshots.get_or_none(snapshot_id)
        right = None if snapshot is None else with_true_sizes(branch, snapshot)
        if snapshot is None or right is None:
            continue
        lists = {
            branch.paths.manifest(name)
            for name in (
                snapshot.base_manifest_list,
                snapshot.delta_manifest_list,
                snapshot.changelog_manifest_list,
            )
            if name is not None
        }
        answered = [f for f in wrong if f.snapshot == snapshot_id and f.file in lists]
        if answered:
            why = answered[0].message
            fix = SizesFix(branch=branch, snapshot=snapshot, right=right, why=why)
            yield fix, answered


def _of_broken_references(
    branch: FileStoreTable, findings: Sequence[Finding]
) -> Iterator[tuple[Fix, list[Finding]]]:
    """Fixes for tags and changelogs with an unreadable file or unreadable metadata.

    None for missing metadata if that of the newest snapshot is missing, too: it may not be mounted.
    """
    groups: dict[tuple[RefKind, str], list[Finding]] = {}
    newest = f"{RefKind.SNAPSHOT} {branch.snapshots.latest_id()}{place(branch)}"
    unmounted = any(f.problem in _LOST_METADATA and f.reference == newest for f in findings)
    for finding in findings:
        if finding.repair is not Repair.DELETE_REFERENCE:
            continue
        if unmounted and finding.problem in _LOST_METADATA:
            continue
        named = _named(branch, finding)
        if named is not None:
            groups.setdefault(named, []).append(finding)
    for (kind, name), answered in groups.items():
        why = answered[0].message
        content = reference_content(branch, kind, name)
        if content is not None:
            fix = ReferenceFix(branch=branch, kind=kind, name=name, why=why, content=content)
            yield fix, answered


def _named(branch: FileStoreTable, finding: Finding) -> tuple[RefKind, str] | None:
    """The tag, changelog or snapshot file of a finding; None if unknown."""
    if finding.reference is not None:
        kind, _, rest = finding.reference.partition(" ")
        name = rest.removesuffix(place(branch))
        return None if kind == RefKind.SNAPSHOT else (RefKind(kind), name)
    file = finding.file or ""
    for name in branch.tags.names():
        if branch.paths.tag(name) == file:
            return RefKind.TAG, name
    for number in branch.snapshots.ids():
        if branch.paths.snapshot(number) == file:
            return RefKind.SNAPSHOT, str(number)
    for number in branch.changelogs.ids():
        if branch.paths.changelog(number) == file:
            return RefKind.CHANGELOG, str(number)
    return None


# --- execution ----------------------------------------------------------------------------------


def recheck(_: FileStoreTable, plan: Plan) -> Plan:
    """The plan as is: each fix rechecks its finding."""
    return plan


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Run the fixes: references first, data files last."""
    done: list[str] = []
    snapshots: list[int] = []
    for number, fix in enumerate(plan.work):
        context.fence()
        fixed = fix.apply(user=f"{context.commit_user}-{number}", env=context.env)
        if fixed.text:
            done.append(fixed.text)
        if fixed.snapshot is not None and fix.branch.branch == table.branch:
            snapshots.append(fixed.snapshot)
    return Committed(snapshots=tuple(snapshots), details={"repaired": done})


REPAIR: Final = metadata_steps(make, apply, recheck=recheck)
