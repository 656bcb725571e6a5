"""Jobs that delete, on a disk that fails: what cannot be seen must never count as missing.

Some calls of the operating system of each kind fail (CARETAKER_LONG=1: all), once or from then on,
and every listing of a folder of references, and every tag.  What holds afterwards is in harness.py.
"""

from __future__ import annotations

import errno
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases_metadata import CASES, GROWN, build
from failing_disk import Disk
from harness import Case, Origin, origin, run_job
from long_run import LONG

from paimon_core.errors import PaimonError
from paimon_core.io import read_retry
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.jobs.versions import inflight_commits

pytestmark = pytest.mark.crash
CODES = (errno.EIO, errno.ESTALE, errno.EACCES)
NO_SPACE = ("link", "replace", "mkdir", "fsync", "write", "close")
"""Calls that may find no space."""
REFERENCES = ("snapshot", "tag", "branch", "consumer", "changelog")
"""Folders whose files keep other files."""
OF_A_KIND = 10_000 if LONG else 1
"""How many calls of a kind fail in a case."""


def rich(warehouse: Path) -> None:
    """Tags, a branch with commits of its own, consumers, changelogs, deletion vectors."""
    options = {
        "deletion-vectors.enabled": "true",
        "changelog-producer": "input",
        "changelog.num-retained.min": "9",
        "changelog.num-retained.max": "9",
    }
    steps = [
        *GROWN,
        {"op": "create_tag", "name": "late", "snapshot": 3},
        {"op": "set_consumer", "id": "c", "next_snapshot": 5},
        {"op": "expire_snapshots", "retain_max": 3, "retain_min": 1},
    ]
    build(warehouse, steps, options)


DELETING = {
    "expire_snapshots": Case(
        job="expire_snapshots", arguments={"retain_max": 1, "retain_min": 1}, build=rich
    ),
    "expire_changelogs": Case(
        job="expire_changelogs", arguments={"retain_max": 2, "retain_min": 1}, build=rich
    ),
    "delete_tag": Case(job="delete_tag", arguments={"tag": ["late", "kept"]}, build=rich),
    "rollback": Case(job="rollback", arguments={"snapshot": 4, "safety_tag": "0 s"}, build=rich),
    "fast_forward": Case(
        job="fast_forward", arguments={"branch_name": "b", "safety_tag": "0 s"}, build=rich
    ),
    "delete_branch": Case(job="delete_branch", arguments={"branch_name": "b"}, build=rich),
    **{
        name: CASES[name]
        for name in (
            "expire_consumers",
            "expire_partitions",
            "remove_orphan_files",
        )
    },
}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else is at the table."""
    monkeypatch.setattr(read_retry, "WAITS_MILLIS", ())
    monkeypatch.setattr(inflight_commits, "LOCAL_MILLIS", 0)


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("name", DELETING)
def test_what_cannot_be_seen_is_not_missing(name: str, tmp_path: Path) -> None:
    of, failed = origin(DELETING[name], tmp_path), tmp_path / "failed"
    for disk in failures(of, failed):
        of.copy(failed)
        report = run_on(disk, failed, of.case)
        if disk.failed is not None:  # the order of calls changes with random names
            check_error(report, disk)
        of.run_again(failed, disk)
        shutil.rmtree(failed)


def run_on(disk: Disk, warehouse: Path, case: Case) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        disk.install(patch)
        disk.armed = True
        try:
            return run_job(warehouse, case.job, case.arguments)
        finally:
            disk.armed = False


def failures(of: Origin, place: Path) -> Iterator[Disk]:
    """Disks that fail at some of the calls of a clean run."""
    of.copy(place)
    clean = Disk(str(place))
    assert run_on(clean, place, of.case).status is Status.SUCCESS
    folders = {str(p) for p in place.rglob("*") if p.is_dir()}
    shutil.rmtree(place)
    kinds: dict[str, list[int]] = defaultdict(list)
    listed: Counter[tuple[str, str]] = Counter()
    for at, (kind, path) in enumerate(clean.calls):
        kinds[kind].append(at)
        is_folder = kind == "scandir" and path in folders
        if (is_folder and is_of_references(path)) or (kind == "open" and "/tag/tag-" in path):
            listed[kind, path] += 1
    for i, (only, times) in enumerate(listed.items()):
        code = CODES[i % len(CODES)]
        if only[0] == "scandir":
            yield Disk(str(place), at=times // 2, code=code, only=only)
        yield Disk(str(place), at=times - 1, code=errno.ENOENT, stays=True, only=only)
    for kind, all_at in kinds.items():
        codes = (*CODES, errno.ENOSPC) if kind in NO_SPACE else CODES
        step = -(-len(all_at) // OF_A_KIND)
        for at in all_at[step // 2 :: step]:
            yield Disk(str(place), at=at, code=codes[at % len(codes)], stays=at % 2 == 1)


def is_of_references(path: str) -> bool:
    return path.rpartition("/")[2] in REFERENCES


def check_error(report: Report, disk: Disk) -> None:
    """See that it names the file, and that a listing or a tag that failed counts as such."""
    error = report.error
    if error is None:
        assert disk.only is None, disk
    elif isinstance(error, PaimonError):
        assert error.table, disk
        assert error.next_step, disk
    else:
        assert isinstance(error, OSError), disk
        assert error.filename, disk
