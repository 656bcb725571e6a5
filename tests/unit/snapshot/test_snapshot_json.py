from __future__ import annotations

from pathlib import Path

import pytest

from paimon_core.errors import UnsupportedFeature
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_from_json, snapshot_to_json

GOLDEN = Path(__file__).parents[2] / "golden"

MINIMAL = """{
  "version" : 3,
  "id" : 1,
  "schemaId" : 0,
  "baseManifestList" : "b",
  "deltaManifestList" : "d",
  "commitUser" : "u",
  "commitIdentifier" : 9223372036854775807,
  "commitKind" : "APPEND",
  "timeMillis" : 5
}"""


def test_snapshots_of_java_are_printed_as_they_were() -> None:
    files = [
        f
        for kind in ("snapshot", "changelog")
        for f in GOLDEN.glob(f"*/*/warehouse/db.db/t/**/{kind}/{kind}-*")
    ]
    assert len(files) > 700
    for file in files:
        text = file.read_bytes().decode()
        snapshot = snapshot_from_json(text)
        assert snapshot_to_json(snapshot) == text
        assert snapshot.written_by_2_0 == ("golden/1.4.2" not in file.as_posix())


def test_fields_of_java_2_0_keep_their_places_and_unknown_ones_follow() -> None:
    text = MINIMAL.replace('"id" : 1', '"uuid" : "x",\n  "id" : 1').replace(
        '"timeMillis" : 5',
        '"timeMillis" : 5,\n  "operation" : "WRITE",\n  "later" : {\n    "a" : [ 1.50 ]\n  }',
    )
    snapshot = snapshot_from_json(text)
    assert snapshot.extra["uuid"] == "x"
    assert snapshot_to_json(snapshot) == text


def test_what_is_absent_stays_absent() -> None:
    snapshot = snapshot_from_json(MINIMAL)
    assert snapshot == Snapshot(
        id=1,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user="u",
        commit_identifier=2**63 - 1,
        commit_kind=CommitKind.APPEND,
        time_millis=5,
    )
    assert snapshot_to_json(snapshot) == MINIMAL
    assert snapshot_from_json(
        MINIMAL.replace('"timeMillis"', '"watermark" : null, "timeMillis"')
    ) == (snapshot)


def test_properties_are_text() -> None:
    text = MINIMAL.replace(
        '"timeMillis" : 5', '"timeMillis" : 5,\n  "properties" : {\n    "a" : "1"\n  }'
    )
    assert snapshot_from_json(text).properties == {"a": "1"}
    assert snapshot_to_json(snapshot_from_json(text)) == text


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"version" : 3', '"version" : 4', UnsupportedFeature),
        ('"APPEND"', '"CLUSTER"', UnsupportedFeature),
        ('"id" : 1', '"id" : "1"', TypeError),
        ('"id" : 1', '"id" : true', TypeError),
        ('"commitUser" : "u",', "", KeyError),
        ('"baseManifestList" : "b"', '"baseManifestList" : null', KeyError),
        ("{", "", ValueError),
    ],
)
def test_what_is_no_snapshot_is_refused(old: str, new: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        snapshot_from_json(MINIMAL.replace(old, new, 1))
