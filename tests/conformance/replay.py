"""Runs the oracle's JSON steps over `paimon_core` and prints the oracle's result lines.

    ./caretaker python tests/conformance/replay.py [-k] STEPS.json      (- for standard input)

The same script can be given to the oracle (real Java Paimon), and the results compared line by
line: names, sizes and times differ, rows do not.  A step that is not built yet, or that fails,
answers with an error line: {"op", "error", "type"}.  A step may have one field that the oracle does
not know: `storage`, the options of the object store that its warehouse is in.  Without -k the first error ends the run with
exit status 1.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.overwrite import overwrite, replace_partitions, static_partition_test
from paimon_core.ddl.alter import check_dynamic_options
from paimon_core.ddl.create import column_from_object, create_schema
from paimon_core.ddl.schema_change import change_from_object
from paimon_core.environment import Environment, machine_zone, system_environment
from paimon_core.errors import InvalidArgument, PaimonError, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestFileMeta
from paimon_core.options import parse_duration_millis
from paimon_core.predicate import from_oracle_filter
from paimon_core.read.stream import Start, StreamScan, read_plan
from paimon_core.read.table_read import chosen_rows
from paimon_core.scan.manifests import manifest_list, read_entries
from paimon_core.schema.schema_json import schema_to_json
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_to_json
from paimon_core.table.describe import describe_entry, describe_files, describe_stats
from paimon_core.table.open import open_table
from paimon_core.table.sink.write_session import commit_write, new_writer
from paimon_core.table.source.batch_scan import BatchScan, batch_scan_of, read_batch
from paimon_core.table.source.time_travel import at_snapshot, travel
from paimon_core.table.system.read import VIEWS, read_system_table, read_view
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.data_types import RowType, TypeRoot
from paimon_core.types.java_numbers import double_text
from paimon_core.types.json_columns import batch_to_json_rows
from paimon_core.types.json_values import from_json_value
from paimon_core.types.partition_text import parse_partition_text
from paimon_core.types.sql import type_to_sql
from paimon_maintenance.jobs.compact.definition import COMPACT
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table

Step = dict[str, Any]
Result = dict[str, Any]

KINDS = ("+I", "-U", "+U", "-D")
ENV = system_environment()


def open_step(step: Step) -> FileStoreTable:
    options = {k: str(v) for k, v in (step.get("options") or {}).items()}
    table = open_table(
        step["warehouse"],
        f"{step['database']}.{step['table']}",
        branch=step.get("branch"),
        dynamic_options=options,
        file_io_options=step.get("storage"),
    )
    check_dynamic_options(table.schemas.get(table.schema.id), options)
    return table


def catalog(step: Step) -> FileSystemCatalog:
    return FileSystemCatalog(step["warehouse"])


def user(step: Step) -> str:
    return str(step.get("commit_user") or ENV.new_uuid())


# --- tables -------------------------------------------------------------------------------------


def create_database(step: Step, _: Result) -> None:
    catalog(step).create_database(step["database"], if_not_exists=True)


def create_table(step: Step, _: Result) -> None:
    c = catalog(step)
    c.create_database(step["database"], if_not_exists=True)
    schema = create_schema(
        [column_from_object(c) for c in step["columns"]],
        now_millis=ENV.now_millis(),
        partition_keys=step.get("partition_keys") or [],
        primary_keys=step.get("primary_keys") or [],
        options={k: str(v) for k, v in (step.get("options") or {}).items()},
        comment=step.get("comment"),
    )
    c.create_table(
        f"{step['database']}.{step['table']}",
        schema,
        if_not_exists=step.get("if_not_exists", False),
    )


def drop_table(step: Step, _: Result) -> None:
    catalog(step).drop_table(
        f"{step['database']}.{step['table']}", if_exists=step.get("if_exists", True)
    )


def alter_table(step: Step, _: Result) -> None:
    catalog(step).alter_table(
        f"{step['database']}.{step['table']}",
        [change_from_object(c) for c in step["changes"]],
        now_millis=ENV.now_millis(),
        branch=step.get("branch"),
    )


# --- writing ------------------------------------------------------------------------------------


def to_arrow(table: FileStoreTable, rows: list[Any]) -> tuple[pa.Table, np.ndarray[Any, Any]]:
    row_type = table.schema.row_type
    values: list[list[Any]] = []
    kinds: list[int] = []
    for row in rows:
        plain = isinstance(row, list)
        cells = row if plain else row["values"]
        if isinstance(cells, list) and len(cells) != len(row_type):
            raise InvalidArgument(f"expected {len(row_type)} values, got {len(cells)}")
        if not isinstance(cells, list):
            cells = [cells.get(n) for n in row_type.names]
        kinds.append(0 if plain else KINDS.index(row.get("kind") or "+I"))
        values.append([from_json_value(c, f.type) for c, f in zip(cells, row_type, strict=True)])
    columns = [column_from_internal([v[i] for v in values], f.type) for i, f in enumerate(row_type)]
    return pa.table(dict(zip(row_type.names, columns, strict=True))), np.array(kinds, np.int8)


def write(step: Step, result: Result) -> None:
    _write(step, result, None)


def overwrite_step(step: Step, result: Result) -> None:
    _write(step, result, dict(step.get("partition") or {}))


def _write(step: Step, result: Result, partition: dict[str, Any] | None) -> None:
    table = open_step(step)
    if "compact" in step:
        write_only = "false" if step["compact"] else "true"
        table = replace(table, schema=table.schema.with_options({"write-only": write_only}))
    before = table.snapshots.latest_id() or 0
    started = time.monotonic()
    rows, kinds = to_arrow(table, step["rows"])
    who = user(step)
    writer = new_writer(table, env=ENV, overwrite=partition is not None, user=who, writer_id=0)
    writer.write(rows, kinds, bucket=step.get("bucket"))
    messages = writer.prepare_commit()
    if not step.get("commit", True):
        return
    stream = step.get("identifier") is not None
    identifier = int(step["identifier"]) if stream else BATCH_COMMIT_IDENTIFIER
    if partition is not None:
        overwrite(
            table,
            messages,
            user=who,
            env=ENV,
            partition=_partition_values(table, partition),
            identifier=identifier,
            watermark=step.get("watermark"),
        )
    else:
        commit_write(
            table,
            messages,
            user=who,
            env=ENV,
            identifier=identifier,
            watermark=step.get("watermark"),
            ignore_empty=step.get("ignore_empty_commit", not stream),
        )
    latest = table.snapshots.latest_id() or 0
    result.update(
        rows=len(kinds),
        seconds=round(time.monotonic() - started, 3),
        snapshots_added=latest - before,
        snapshot=latest,
    )


def _partition_values(table: FileStoreTable, spec: dict[str, Any]) -> dict[str, object]:
    types = {f.name: f.type for f in table.schema.fields}
    default = table.options.get("partition.default-name", "__DEFAULT_PARTITION__")
    return {
        k: None if v == default else parse_partition_text(str(v), types[k]) for k, v in spec.items()
    }


def compact(step: Step, result: Result) -> None:
    table = open_step(step)
    if "bucket" in step:
        raise UnsupportedFeature("compaction of one bucket")
    before = table.snapshots.latest_id() or 0
    started = time.monotonic()
    # Java compacts the real buckets of a postpone table as its writers do.
    postponed = table.bucket_mode.value == "postpone"
    full = step.get("full", True) and not postponed
    arguments: dict[str, object] = {"strategy": "full" if full else "minor"}
    if step.get("partition"):
        arguments["partitions"] = [{k: str(v) for k, v in step["partition"].items()}]
    options = {k: str(v) for k, v in (step.get("options") or {}).items()}
    if "num_buckets" in step:
        options["postpone.default-bucket-num"] = str(step["num_buckets"])
    if options:
        arguments["options"] = options
    report = run_table(
        RunRequest(
            job=COMPACT,
            warehouse=step["warehouse"],
            table=table.name,
            branch=step.get("branch"),
            arguments=COMPACT.read_arguments(arguments),
            force=True,
        )
    )
    if report.error is not None:
        raise report.error
    latest = table.snapshots.latest_id() or 0
    result.update(
        seconds=round(time.monotonic() - started, 3),
        snapshots_added=latest - before,
        snapshot=latest,
    )


def rescale(step: Step, result: Result) -> None:
    table = open_step(step)
    before = table.snapshots.latest_id() or 0
    chosen = step.get("partition")
    partitions = [{k: str(v) for k, v in chosen.items()}] if chosen else None
    run_job(step, "rescale", {"bucket_num": step["bucket"], "partitions": partitions})
    latest = table.snapshots.latest_id() or 0
    result.update(snapshots_added=latest - before, snapshot=latest)


# --- maintenance --------------------------------------------------------------------------------


def run_job(
    step: Step, name: str, arguments: dict[str, object], *, env: Environment = ENV
) -> Result:
    """The details of a job's report; PaimonError if it failed."""
    job = job_named(name)
    given = {k: v for k, v in arguments.items() if v is not None}
    if step.get("options"):
        given["options"] = {k: str(v) for k, v in step["options"].items()}
    report = run_table(
        RunRequest(
            job=job,
            warehouse=step["warehouse"],
            table=f"{step['database']}.{step['table']}",
            branch=step.get("branch"),
            arguments=job.read_arguments(given),
            force=True,
        ),
        RunServices(env=env),
    )
    if isinstance(report.error, PaimonError):
        raise report.error
    if report.error is not None:
        raise PaimonError(str(report.error)) from report.error
    return dict(report.details)


def _at(now: str | None) -> Environment:
    """The environment with its clocks at this local time."""
    if now is None:
        return ENV
    millis = int(datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp() * 1000)
    return replace(ENV, now_millis=lambda: millis, local_millis=lambda: millis, local_at=None)


def _older_than(step: Step) -> str | None:
    if step.get("time_retained") is not None:
        return str(ENV.now_millis() - parse_duration_millis(step["time_retained"]))
    return None if step.get("older_than_millis") is None else str(step["older_than_millis"])


def _retention(step: Step) -> dict[str, object]:
    names = ("retain_max", "retain_min", "max_deletes")
    return {"older_than": _older_than(step)} | {n: step.get(n) for n in names}


def expire_snapshots(step: Step, result: Result) -> None:
    done = run_job(step, "expire_snapshots", _retention(step))
    result["expired"] = len(done.get("expired_snapshots", ()))


def expire_changelogs(step: Step, result: Result) -> None:
    done = run_job(step, "expire_changelogs", _retention(step))
    result["expired"] = len(done.get("expired_changelogs", ()))


def expire_partitions(step: Step, result: Result) -> None:
    names = ("expiration_time", "timestamp_formatter", "timestamp_pattern")
    if not open_step(step).schema.partition_keys:
        raise InvalidArgument("the table is not partitioned")  # ours passes over it, Java fails
    arguments = {n: step.get(n) for n in names} | {"expire_strategy": step.get("strategy")}
    done = run_job(step, "expire_partitions", arguments, env=_at(step.get("now")))
    result["expired"] = done.get("expired_partitions", [])


def remove_orphan_files(step: Step, result: Result) -> None:
    older_than = step.get("older_than_millis")
    done = run_job(
        step,
        "remove_orphan_files",
        {"older_than": None if older_than is None else str(older_than), "allow_young": True},
    )
    result["removed"] = done.get("deleted_files", 0)


def rollback_to(step: Step, _: Result) -> None:
    arguments = {k: step.get(k) for k in ("snapshot", "tag", "timestamp")}
    run_job(step, "rollback", arguments | {"safety_tag": step.get("safety_tag", "0 s")})


def fast_forward(step: Step, _: Result) -> None:
    arguments = {"branch_name": step["name"], "safety_tag": step.get("safety_tag", "0 s")}
    run_job(step, "fast_forward", arguments)


def compact_manifests(step: Step, _: Result) -> None:
    run_job(step, "compact_manifest", {})


def drop_partition(step: Step, _: Result) -> None:
    table = open_step(step)
    tests = [
        static_partition_test(table, _partition_values(table, spec)) for spec in step["partitions"]
    ]
    replace_partitions(
        table,
        lambda row: any(test is None or test(row) for test in tests),
        user=user(step),
        env=ENV,
    )


def truncate(step: Step, _: Result) -> None:
    replace_partitions(open_step(step), None, user=user(step), env=ENV)


# --- metadata -----------------------------------------------------------------------------------


def snapshots(step: Step, result: Result) -> None:
    result["snapshots"] = [json.loads(snapshot_to_json(s)) for s in open_step(step).snapshots.all()]


def changelogs(step: Step, result: Result) -> None:
    result["changelogs"] = [
        json.loads(snapshot_to_json(s)) for s in open_step(step).changelogs.all()
    ]


def schemas(step: Step, result: Result) -> None:
    result["schemas"] = [json.loads(schema_to_json(s)) for s in open_step(step).schemas.all()]


def tags(step: Step, result: Result) -> None:
    table = open_step(step)
    result["tags"] = [
        {"name": t.name, "tag": json.loads(table.io.read_bytes(table.paths.tag(t.name)))}
        for t in sorted(table.tags.all(), key=lambda t: t.name)
    ]


def branches(step: Step, result: Result) -> None:
    result["branches"] = sorted(open_step(step).branches.names())


def consumers(step: Step, result: Result) -> None:
    result["consumers"] = {
        c.id: c.next_snapshot for c in sorted(open_step(step).consumers.all(), key=lambda c: c.id)
    }


def set_consumer(step: Step, _: Result) -> None:
    open_step(step).consumers.set(step["id"], int(step["next_snapshot"]))


def delete_consumer(step: Step, _: Result) -> None:
    open_step(step).consumers.delete(step["id"])


def create_tag(step: Step, _: Result) -> None:
    arguments = {"tag": step["name"], "snapshot": step.get("snapshot")}
    run_job(step, "create_tag", arguments | {"time_retained": step.get("time_retained")})


def delete_tag(step: Step, _: Result) -> None:
    run_job(step, "delete_tag", {"tag": [step["name"]]})


def auto_tag(step: Step, result: Result) -> None:
    done = run_job(step, "trigger_tag_automatic_creation", {})
    result.update({k: done.get(k, []) for k in ("created_tags", "deleted_tags")})


def create_branch(step: Step, _: Result) -> None:
    open_step(step).branches.create(step["name"], tag=step.get("tag"))


def delete_branch(step: Step, _: Result) -> None:
    run_job(step, "delete_branch", {"branch_name": step["name"]})


def files(step: Step, result: Result) -> None:
    table, snapshot = travel(open_step(step), snapshot=step.get("snapshot"), tag=step.get("tag"))
    result.update(describe_files(table, snapshot))


def manifests(step: Step, result: Result) -> None:
    table = open_step(step)
    chosen = step.get("snapshot")
    snapshot = table.latest_or_not_found() if chosen is None else table.snapshots.get(chosen)
    result.update(_manifests_of(table, snapshot, entries=step.get("entries", True)))


def _manifests_of(table: FileStoreTable, snapshot: Snapshot, *, entries: bool = True) -> Result:
    """Return the manifest lists of a snapshot, their manifests, and the manifests' entries."""
    result: Result = {}
    for what, name in (
        ("base", snapshot.base_manifest_list),
        ("delta", snapshot.delta_manifest_list),
        ("changelog", snapshot.changelog_manifest_list),
    ):
        if name is not None:
            manifests = manifest_list(table, snapshot, name)
            result[what] = {
                "list": name,
                "manifests": [_manifest_of(table, m, entries=entries) for m in manifests],
            }
    return result


def _manifest_of(table: FileStoreTable, meta: ManifestFileMeta, *, entries: bool) -> Result:
    described: Result = {
        "file": meta.file_name,
        "size": meta.file_size,
        "added": meta.num_added_files,
        "deleted": meta.num_deleted_files,
        "schema_id": meta.schema_id,
        "min_bucket": meta.min_bucket,
        "max_bucket": meta.max_bucket,
        "min_level": meta.min_level,
        "max_level": meta.max_level,
        "min_row_id": meta.min_row_id,
        "max_row_id": meta.max_row_id,
        "partition_stats": describe_stats(table.schema.partition_type.fields, meta.partition_stats),
    }
    if entries:
        described["entries"] = [describe_entry(table, e) for e in read_entries(table, meta)]
    return described


# --- reading ------------------------------------------------------------------------------------


def read(step: Step, result: Result) -> None:
    started = time.monotonic()
    # What a step asks for are scan options of Java's table; they replace what the table says.
    asked = {
        "scan.snapshot-id": step.get("snapshot"),
        "scan.tag-name": step.get("tag"),
        "scan.timestamp-millis": step.get("timestamp"),
        "incremental-between": ",".join(map(str, step.get("incremental_between") or ())) or None,
    }
    options = {k: str(v) for k, v in asked.items() if v is not None}
    table = open_step({**step, "options": {**(step.get("options") or {}), **options}})
    batch = batch_scan_of(table, zone=machine_zone())
    row_type, batches = _batches(step, batch)
    columns = step.get("projection")
    wanted = row_type if columns is None else row_type.project(columns)
    rows = rows_of(batches, wanted, bits=bool(step.get("checksum")))
    if step.get("checksum"):
        count, total = 0, 0
        for row in rows:
            digest = hashlib.sha256(_text(row).encode()).digest()
            count, total = count + 1, (total + int.from_bytes(digest[:8], "big")) % 2**64
        result.update(count=count, checksum=f"{total:016x}")
    else:
        found = list(rows)
        if step.get("sorted", True):
            found.sort(key=_sort_text)
        result.update(
            count=len(found),
            columns=list(wanted.names),
            types=[type_to_sql(t) for t in wanted.types],
            rows=found,
        )
    result["seconds"] = round(time.monotonic() - started, 3)


def _batches(step: Step, batch: BatchScan) -> tuple[RowType, Iterator[pa.RecordBatch]]:
    """(the columns of the table or of the system table asked for, its rows)."""
    name, columns, limit = step.get("system"), step.get("projection"), step.get("limit")
    row_type = batch.table.schema.row_type
    if name is None:
        predicate = from_oracle_filter(step["filter"], row_type) if step.get("filter") else None
        return row_type, read_batch(
            batch, columns=columns, predicate=predicate, limit=limit, zone=machine_zone()
        )
    if name in VIEWS:
        row_type, batches = read_view(batch, name, zone=machine_zone())
    else:
        row_type, batches = read_system_table(batch.table, name, batch.whole, zone=machine_zone())
    predicate = from_oracle_filter(step["filter"], row_type) if step.get("filter") else None
    return row_type, chosen_rows(batches, columns or row_type.names, predicate, limit)


def stream_read(step: Step, result: Result) -> None:
    table = open_step(step)
    first = step.get("from")
    if first is None:
        scan = StreamScan(table=table)
    else:
        chosen = table.snapshots.get_or_none(first)
        if chosen is not None:
            table = at_snapshot(table, chosen)
        scan = StreamScan(table=table, start=Start.FROM_SNAPSHOT, at=int(first))
    until = int(step.get("until") or table.snapshots.latest_id() or 0)
    result["plans"] = []
    for _ in range(int(step.get("max_plans", 100_000))):
        at = scan.next_snapshot
        if at is not None and at > until:
            break
        plan = scan.plan()
        rows = list(rows_of(read_plan(table, plan), table.schema.row_type, bits=False))
        rows.sort(key=_sort_text)
        result["plans"].append(
            {
                "next_snapshot": plan.next_snapshot,
                "count": len(rows),
                "columns": list(table.schema.names),
                "types": [type_to_sql(t) for t in table.schema.row_type.types],
                "rows": rows,
            }
        )
        if plan.is_empty and at == scan.next_snapshot:
            break


def rows_of(
    batches: Iterator[pa.RecordBatch], row_type: RowType, *, bits: bool
) -> Iterator[list[Any]]:
    """Rows as `[kind, value, ...]`; with `bits`, floating point as the hex of its IEEE bits."""
    for batch in batches:
        kinds = batch.column(0).to_pylist()
        values = batch_to_json_rows(batch.select(list(row_type.names)), row_type)
        for kind, row in zip(kinds, values, strict=True):
            cells = row
            if bits:
                cells = [_bits(v, f.type.root) for v, f in zip(row, row_type, strict=True)]
            yield [KINDS[kind], *cells]


def _bits(value: Any, root: TypeRoot) -> Any:
    if value is None or root not in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return value
    return struct.pack(">f" if root is TypeRoot.FLOAT else ">d", float(value)).hex()


def _sort_text(row: list[Any]) -> bytes:
    """What the oracle sorts rows by: JSON with Java's numbers, compared by UTF-16 units."""
    return _java_text(row).encode("utf-16-be")


def _java_text(value: Any) -> str:
    match value:
        case float():
            return double_text(value)
        case list():
            return f"[{','.join(map(_java_text, value))}]"
        case dict():
            return f"{{{','.join(f'{_text(k)}:{_java_text(v)}' for k, v in value.items())}}}"
    return _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


STEPS: dict[str, Callable[[Step, Result], None]] = {
    "create_database": create_database,
    "create_table": create_table,
    "drop_table": drop_table,
    "alter_table": alter_table,
    "write": write,
    "overwrite": overwrite_step,
    "compact": compact,
    "rescale": rescale,
    "drop_partition": drop_partition,
    "truncate": truncate,
    "expire_snapshots": expire_snapshots,
    "expire_changelogs": expire_changelogs,
    "rollback_to": rollback_to,
    "fast_forward": fast_forward,
    "compact_manifests": compact_manifests,
    "remove_orphan_files": remove_orphan_files,
    "expire_partitions": expire_partitions,
    "snapshots": snapshots,
    "changelogs": changelogs,
    "schemas": schemas,
    "tags": tags,
    "branches": branches,
    "consumers": consumers,
    "set_consumer": set_consumer,
    "delete_consumer": delete_consumer,
    "create_tag": create_tag,
    "delete_tag": delete_tag,
    "auto_tag": auto_tag,
    "create_branch": create_branch,
    "delete_branch": delete_branch,
    "files": files,
    "manifests": manifests,
    "read": read,
    "stream_read": stream_read,
}


def run_step(step: Step) -> Result:
    """The result of one step; on failure a result with `error` and `type`."""
    result: Result = {"op": step.get("op")}
    try:
        handler = STEPS.get(str(step.get("op")))
        if handler is None:
            raise UnsupportedFeature(f"step {step.get('op')}")
        handler(step, result)
    except (PaimonError, OSError, ValueError, KeyError, pa.ArrowException) as e:
        result.update(error=str(e), type=type(e).__name__)
    return result


def parse_steps(stream: TextIO) -> Iterator[Step]:
    """Steps from a JSON array, or from JSON lines as they come."""
    first = stream.readline()
    while first and not first.strip():
        first = stream.readline()
    if first.lstrip().startswith("["):
        yield from _parsed(first + stream.read())
        return
    line = first
    while line:
        if line.strip():
            yield _parsed(line)
        line = stream.readline()


def _parsed(text: str) -> Any:
    """JSON as the oracle takes it: a number -0.0 is 0.0 there; the text "-0.0" is not."""
    return json.loads(text, parse_float=lambda number: float(number) + 0.0)


def main(arguments: list[str]) -> int:
    keep_going = "-k" in arguments or "--keep-going" in arguments
    names = [a for a in arguments if not a.startswith("-") or a == "-"]
    if not names or names[0] == "-":
        return run(sys.stdin, keep_going=keep_going)
    with Path(names[0]).open(encoding="utf-8") as stream:
        return run(stream, keep_going=keep_going)


def run(stream: TextIO, *, keep_going: bool) -> int:
    """Run the steps of a stream, printing a line each; the exit status."""
    defaults: Step = {}
    for raw in parse_steps(stream):
        if raw.get("op") == "defaults":
            defaults.update({k: v for k, v in raw.items() if k != "op"})
            result: Result = {"op": "defaults"}
        else:
            result = run_step({**defaults, **raw})
        print(_text(result), flush=True)
        if "error" in result and not keep_going:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
