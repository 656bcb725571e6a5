"""Where files go that do not lie in their table's folder."""

from __future__ import annotations

from collections import Counter

import pytest

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.external_paths import ExternalPaths, normal_path
from paimon_core.features import check_readable
from paimon_core.options import Options
from paimon_core.table.open import open_table

PREFIX = "data-file.external-paths"
NAMES = [f"data-{i:036}-0.parquet" for i in range(400)]


def paths(**options: str) -> ExternalPaths | None:
    named = {f"{PREFIX}.{k.replace('_', '-')}": v for k, v in options.items()}
    return ExternalPaths.of(Options({PREFIX: "file:///w/a/, file:/w/b , s3://x/c", **named}))


def roots(found: ExternalPaths | None) -> Counter[str]:
    assert found is not None
    return Counter(found.path("dt=1/bucket-0", n).partition("/dt=1")[0] for n in NAMES)


def test_without_a_strategy_files_stay_in_the_table():
    assert paths() is None
    assert paths(strategy="none") is None
    assert ExternalPaths.of(Options({f"{PREFIX}.strategy": "round-robin"})) is None


def test_every_folder_gets_its_part():
    found = roots(paths(strategy="round-robin"))
    assert set(found) == {"file:/w/a", "file:/w/b", "s3://x/c"}
    assert min(found.values()) > 90


def test_weights():
    found = roots(paths(strategy="weight-robin", weights="1,8,1"))
    assert found["file:/w/b"] > 280
    with pytest.raises(InvalidArgument, match=r"3 folders.*2 numbers"):
        paths(strategy="weight-robin", weights="1,2")


def test_one_store_only():
    assert set(roots(paths(strategy="specific-fs", specific_fs="S3"))) == {"s3://x/c"}
    with pytest.raises(InvalidArgument, match="no folder"):
        paths(strategy="specific-fs", specific_fs="oss")
    with pytest.raises(InvalidArgument, match="specific-fs is not set"):
        paths(strategy="specific-fs")


def test_entropy_spreads_a_bucket_over_folders():
    found = paths(strategy="entropy-inject")
    assert found is not None
    folders = {found.path("bucket-0", n).rsplit("/", 1)[0].partition("bucket-0/")[2] for n in NAMES}
    assert len(folders) > 390
    assert {tuple(map(len, f.split("/"))) for f in folders} == {(4, 4, 4, 8)}


@pytest.mark.parametrize(
    ("text", "path"),
    [("file:///w/a/", "file:/w/a"), ("FILE:/w", "file:/w"), (" s3://b/x/ ", "s3://b/x")],
)
def test_paths_are_written_as_java_writes_them(text: str, path: str):
    assert normal_path(text) == path


def test_a_path_needs_a_scheme():
    with pytest.raises(InvalidArgument, match="scheme"):
        normal_path("/w/a")
    with pytest.raises(InvalidArgument, match="expected none"):
        paths(strategy="by-moon")


def test_folders_on_another_store_are_refused_by_name(golden):
    options = {PREFIX: "s3://elsewhere/x", f"{PREFIX}.strategy": "round-robin"}
    table = open_table(str(golden("dedup").warehouse), "db.t", dynamic_options=options)
    with pytest.raises(UnsupportedFeature, match=r"data-file\.external-paths \(on another store"):
        check_readable(table)
