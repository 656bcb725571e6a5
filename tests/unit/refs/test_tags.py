from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_core.errors import AlreadyExists, CorruptTable, InvalidArgument, NotFound
from paimon_core.io import read_retry
from paimon_core.io.local import LocalFileIO
from paimon_core.paths import TablePaths
from paimon_core.refs.tags import Tag, TagStore, tag_from_json, tag_to_json
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_to_json

GOLDEN = Path(__file__).parents[2] / "golden"
SNAPSHOT = Snapshot(
    id=5,
    schema_id=0,
    base_manifest_list="b",
    delta_manifest_list="d",
    commit_user="u",
    commit_identifier=1,
    commit_kind=CommitKind.APPEND,
    time_millis=1,
    next_row_id=0,
)
DAY = 86_400 * 10**9
# 2026-11-21T08:16:29.033059399
CREATED = 1_795_248_989_033_059_399


def _store(root: Path) -> TagStore:
    return TagStore(LocalFileIO(), TablePaths(root=str(root)), "db.t")


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_golden_tags(version: str) -> None:
    seen = 0
    for table in sorted((GOLDEN / version).iterdir()):
        expected = json.loads((table / "expected.json").read_text())["tags"]
        store = _store(table / "warehouse/db.db/t")
        tags = store.all()
        assert {t.name: json.loads(tag_to_json(t)) for t in tags} == {
            t["name"]: t["tag"] for t in expected
        }
        assert store.names() == sorted(t["name"] for t in expected)
        for tag in tags:
            seen += 1
            text = Path(store.paths.tag(tag.name)).read_bytes().decode()
            assert tag_to_json(tag) == text
            assert ("tagTimeRetained" in text) == (tag.expires_at_millis is not None)
    assert seen > 5


def test_a_tag_without_a_time_to_live_is_the_snapshot_itself() -> None:
    assert tag_to_json(Tag("t", SNAPSHOT)) == snapshot_to_json(SNAPSHOT)


def test_a_time_to_live_is_written_as_java_does() -> None:
    tag = Tag("t", SNAPSHOT, CREATED, DAY)
    text = tag_to_json(tag)
    assert text.endswith(
        '"tagCreateTime" : [ 2026, 11, 21, 8, 16, 29, 33059399 ],\n'
        '  "tagTimeRetained" : 86400.000000000\n}'
    )
    assert tag_from_json("t", text) == tag
    assert tag.expires_at_millis == (CREATED + DAY) // 10**6
    assert Tag("t", SNAPSHOT).expires_at_millis is None


@pytest.mark.parametrize(
    ("nanos", "parts"),
    [
        (0, [1970, 1, 1, 0, 0]),
        (1, [1970, 1, 1, 0, 0, 0, 1]),
        (59 * 10**9, [1970, 1, 1, 0, 0, 59]),
        (-1, [1969, 12, 31, 23, 59, 59, 999_999_999]),
        (CREATED, [2026, 11, 21, 8, 16, 29, 33059399]),
    ],
)
def test_dates_leave_zero_seconds_out_as_jackson_does(nanos: int, parts: list[int]) -> None:
    text = tag_to_json(Tag("t", SNAPSHOT, nanos, DAY))
    assert json.loads(text)["tagCreateTime"] == parts
    assert tag_from_json("t", text).create_time == nanos


def test_dates_may_be_text_and_seconds_whole() -> None:
    obj = json.loads(snapshot_to_json(SNAPSHOT))
    obj |= {"tagCreateTime": "2026-11-21T08:16:29.033059399", "tagTimeRetained": 86400}
    tag = tag_from_json("t", json.dumps(obj))
    assert (tag.create_time, tag.time_retained) == (CREATED, DAY)
    obj["tagTimeRetained"] = 0.5
    assert tag_from_json("t", json.dumps(obj)).time_retained == 5 * 10**8


@pytest.mark.parametrize(
    ("field", "value"),
    [("tagCreateTime", [2026, 1]), ("tagCreateTime", 5), ("tagTimeRetained", "1 d")],
)
def test_broken_times_are_errors(field: str, value: object) -> None:
    obj = json.loads(snapshot_to_json(SNAPSHOT)) | {field: value}
    with pytest.raises((ValueError, TypeError)):
        tag_from_json("t", json.dumps(obj))


def test_unknown_fields_of_the_snapshot_are_kept() -> None:
    newer = replace(SNAPSHOT, extra={"uuid": "x", "operation": "WRITE", "later": [1]})
    tag = Tag("t", newer, CREATED, DAY)
    assert tag_from_json("t", tag_to_json(tag)) == tag


def test_tags_are_made_replaced_renamed_and_deleted(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.all() == []
    store.create(Tag("20231007", SNAPSHOT))
    store.create(Tag("2023-10-07 15", replace(SNAPSHOT, id=3)))
    assert [t.snapshot.id for t in store.all()] == [3, 5]
    with pytest.raises(AlreadyExists, match="20231007"):
        store.create(Tag("20231007", replace(SNAPSHOT, id=9)))
    assert store.get("20231007").snapshot.id == 5
    store.replace(Tag("20231007", replace(SNAPSHOT, id=9), CREATED, DAY))
    assert store.get("20231007").time_retained == DAY
    assert (store.modified_millis("20231007") or 0) > 1_600_000_000_000
    with pytest.raises(AlreadyExists):
        store.rename("20231007", "2023-10-07 15")
    store.rename("20231007", "x")
    assert store.names() == ["2023-10-07 15", "x"]
    assert store.exists("x")
    assert store.delete("x")
    assert not store.delete("x")
    assert not store.exists("x")


def test_missing_tags_are_not_found(tmp_path: Path) -> None:
    store = _store(tmp_path)
    for missing in (
        lambda: store.get("x"),
        lambda: store.replace(Tag("x", SNAPSHOT)),
        lambda: store.rename("x", "y"),
    ):
        with pytest.raises(NotFound, match="tag 'x' of table"):
            missing()
    assert store.get_or_none("x") is None
    assert store.modified_millis("x") is None


@pytest.mark.parametrize("name", ["", " ", "a/b"])
def test_names_that_cannot_be_files_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument):
        _store(tmp_path).create(Tag(name, SNAPSHOT))


def test_broken_tags_name_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_retry, "WAITS_MILLIS", ())
    (tmp_path / "tag").mkdir()
    (tmp_path / "tag" / "tag-x").write_text('{"id" : 1')
    (tmp_path / "tag" / ".tag-y.uuid.tmp").write_text("")
    with pytest.raises(CorruptTable) as broken:
        _store(tmp_path).all()
    assert broken.value.file == str(tmp_path / "tag" / "tag-x")
