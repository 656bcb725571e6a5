"""Options that Paimon does not know, and values that it cannot read."""

from __future__ import annotations

import logging
from dataclasses import replace
from inspect import signature
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import ENV, Lake

from paimon_core import features, known_options
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.schema_change import SetOption
from paimon_core.errors import SchemaError, UnsupportedFeature
from paimon_core.known_options import (
    KNOWN_OPTIONS,
    Treatment,
    check_value,
    similar_name,
    unknown_options,
)
from paimon_core.options import all_options

COLUMNS = [Column("k", "INT")]


def test_every_option_that_caretaker_reads_is_known() -> None:
    keys = {o.key for o in all_options()}
    assert unknown_options(dict.fromkeys(keys, "")) == []
    assert len(known_options._NAMES) > 400


def test_a_misspelled_option_of_caretaker_is_not_ignored_in_silence() -> None:
    assert unknown_options({"caretaker.maintenence": "off", "caretaker.maintenance": "off"}) == [
        "caretaker.maintenence"
    ]
    assert similar_name("caretaker.maintenence") == "caretaker.maintenance"
    check_value("caretaker.maintenance", "OFF")
    with pytest.raises(SchemaError, match="must be one of on, off"):
        check_value("caretaker.maintenance", "of")


@pytest.mark.parametrize(("version", "least"), [("1.4.2", 285), ("2.0.0", 334), ("HEAD", 336)])
def test_the_list_holds_the_options_of_each_version(version: str, least: int) -> None:
    """At least as many keys as `CoreOptions` has constants; some have other keys besides."""
    core = [o for o in KNOWN_OPTIONS.values() if o.declared_in == "CoreOptions"]
    assert len([o for o in core if version in o.versions]) >= least
    assert {v for o in core for v in o.versions} == {"1.4.2", "2.0.0", "HEAD"}


def test_new_options_of_versions_are_told_apart() -> None:
    assert KNOWN_OPTIONS["primary-key.nullable"].versions == ("HEAD",)
    assert KNOWN_OPTIONS["sequence.snapshot-ordering"].versions == ("2.0.0", "HEAD")
    assert KNOWN_OPTIONS["bucket"].versions == ("1.4.2", "2.0.0", "HEAD")
    assert KNOWN_OPTIONS["merge-engine"].values == (
        *("deduplicate", "partial-update", "aggregation", "first-row"),
    )


def _sources() -> str:
    root = Path(known_options.__file__).parent
    folders = (root, root.parent / "paimon_spark", root.parent / "maintenance")
    files = [p for folder in folders for p in folder.rglob("*.py") if p.name != "known_options.py"]
    return "".join(p.read_text(encoding="utf-8") for p in files)


def test_honoured_options_are_read_and_others_are_not() -> None:
    source = _sources()
    read = {o.key for o in all_options()} | {k for o in all_options() for k in o.fallback_keys}
    for option in KNOWN_OPTIONS.values():
        literal = option.key in read or f'"{option.key}"' in source
        if option.treatment is Treatment.HONOURED:
            assert literal, f"{option.key} is read nowhere"
        if option.treatment is Treatment.NO_EFFECT:
            # Arguments of jobs, and options of COPY INTO, have the same names.
            is_other = option.key == "mode" or option.declared_in == "CsvOptions"
            assert not literal or is_other, f"{option.key} is read somewhere"


def test_refused_options_are_refused_by_name(tmp_path: Path) -> None:
    """Each refused option is named by some check of `paimon_core/features.py`."""
    checks = [
        value
        for name, value in vars(features).items()
        if name.startswith("check_") and len(signature(value).parameters) == 1
    ]
    table = Lake(tmp_path)
    table.primary_key()
    handle = table.table()
    for option in KNOWN_OPTIONS.values():
        if option.treatment is not Treatment.REFUSED:
            continue
        value = {"boolean": "true", "integer": "1", "enum": "x"}.get(option.type, "x")
        schema = handle.schema.with_options({option.key: value})
        named = False
        for check in checks:
            try:
                check(replace(handle, schema=schema))
            except UnsupportedFeature as e:
                named = named or option.key in str(e)
        assert named, option.key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("scan.mode", "latest-fulll"),
        ("tag.automatic-creation", "sometimes"),
        ("snapshot.num-retained.max", "many"),
        ("snapshot.num-retained.max", "1_0"),
        ("snapshot.time-retained", "long"),
        ("target-file-size", "big"),
        ("write-only", "yes"),
        ("lookup.cache-max-disk-size", "much"),  # Caretaker never reads it
        ("sink.parallelism", "four"),
        ("compaction.delete-ratio-threshold", "nan"),
        ("lookup.cache.bloom.filter.fpp", "1_0.5"),
        ("caretaker.orc-time-zone.x", None),
    ],
)
def test_a_value_that_cannot_be_read_is_refused_at_creation(key: str, value: str | None) -> None:
    if value is None:
        create_schema(COLUMNS, now_millis=0, options={key: "anything"})
        return
    with pytest.raises(SchemaError, match=key) as refused:
        create_schema(COLUMNS, now_millis=0, options={key: value})
    assert repr(value) in refused.value.message
    assert refused.value.next_step
    with pytest.raises(SchemaError, match=key):
        check_value(key, value)


def test_dictionaries_of_parquet_are_turned_off_as_the_documents_say() -> None:
    """Java declares a number, and hands the text to Parquet, which takes true and false."""
    for value in ("true", "false"):
        create_schema(COLUMNS, now_millis=0, options={"parquet.enable.dictionary": value})
    with pytest.raises(SchemaError, match=r"parquet\.enable\.dictionary"):
        check_value("parquet.enable.dictionary", "never")


def test_a_change_to_such_a_value_is_refused_and_a_way_out_of_one_is_not(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    catalog = FileSystemCatalog(str(tmp_path))
    schema = Path(lake.table().root) / "schema" / "schema-0"
    schema.write_text(
        schema.read_text().replace('"options" : {', '"options" : { "sink.parallelism" : "four",', 1)
    )
    change = {"change": "set_option", "key": "scan.parallelism", "value": "two"}
    with pytest.raises(SchemaError, match=r"scan\.parallelism"):
        catalog.alter_table("db.t", [change], now_millis=ENV.now_millis())
    change = {"change": "set_option", "key": "sink.parallelism", "value": "4"}
    changed = catalog.alter_table("db.t", [change], now_millis=ENV.now_millis())
    assert changed.options["sink.parallelism"] == "4"


def test_an_unknown_key_is_warned_of_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Java accepts it, and connectors keep words of their own among the options."""
    lake = Lake(tmp_path)
    with caplog.at_level(logging.WARNING):
        lake.primary_key(**{"snapshot.num-retaind.max": "5", "fields.v.aggregate-function": "max"})
    assert lake.table().options["snapshot.num-retaind.max"] == "5"
    (record,) = [r.getMessage() for r in caplog.records if "unknown to Paimon" in r.getMessage()]
    assert "'snapshot.num-retaind.max'" in record
    assert "did you mean snapshot.num-retained.max?" in record


def test_an_unknown_key_that_a_change_sets_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    catalog = FileSystemCatalog(str(tmp_path))
    with caplog.at_level(logging.WARNING):
        catalog.alter_table("db.t", [SetOption("snapshot.num-retaind.max", "5")], now_millis=1)
        catalog.alter_table("db.t", [SetOption("snapshot.num-retained.max", "50")], now_millis=2)
    (record,) = [r.getMessage() for r in caplog.records if "unknown to Paimon" in r.getMessage()]
    assert "'snapshot.num-retaind.max'" in record
    assert "did you mean snapshot.num-retained.max?" in record


def test_inspect_names_both(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(**{"compaction.min-file-num": "5", "snapshot.num-retaind.max": "5"})
    schema = Path(lake.table().root) / "schema" / "schema-0"
    schema.write_text(
        schema.read_text().replace('"options" : {', '"options" : { "sink.parallelism" : "four",', 1)
    )
    ran = caretaker("inspect", "db.t", "-w", tmp_path)
    assert ran.code == 0
    assert "no option snapshot.num-retaind.max, so it has no effect" in ran.out
    assert "the option sink.parallelism cannot have the value 'four'" in ran.out


def test_names_that_are_alike() -> None:
    assert similar_name("snapshot.num-retaind.max") == "snapshot.num-retained.max"
    assert similar_name("something.else") is None


@pytest.mark.parametrize("where", ["table", "catalog"])
def test_a_path_is_refused_as_in_java(where: str, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "elsewhere")
    defaults = {"table-default.path": elsewhere} if where == "catalog" else {}
    catalog = FileSystemCatalog(str(tmp_path / "lake"), defaults)
    catalog.create_database("db")
    options = {"path": elsewhere} if where == "table" else {}
    schema = create_schema(COLUMNS, now_millis=0, options=options)
    with pytest.raises(SchemaError, match="cannot be created at") as refused:
        catalog.create_table("db.t", schema)
    assert refused.value.table == "db.t"
    assert catalog.list_tables("db") == []


def test_the_list_goes_to_executors(tmp_path: Path) -> None:
    import subprocess
    import sys

    from paimon_maintenance.engines.shipping import write_packages

    shipped = write_packages(tmp_path / "caretaker.zip")
    code = (
        f"import sys; sys.path.insert(0, {str(shipped)!r})\n"
        "from paimon_core import known_options as k\n"
        "print(k.__file__, k.KNOWN_OPTIONS['bucket'].treatment)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert str(shipped) in ran.stdout
    assert ran.stdout.endswith("honoured\n")
