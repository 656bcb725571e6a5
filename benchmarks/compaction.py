"""Full compaction: ours, Java's and the floor, on the same data in the same run.

    ./caretaker python benchmarks/compaction.py                  small tables, about a minute
    ./caretaker python benchmarks/compaction.py --long           5 million rows, three repetitions
    ./caretaker python benchmarks/compaction.py --kinds          every merge engine, changelogs, ...
    ./caretaker python benchmarks/compaction.py --long --keep DIR  the tables stay, for the next run
    ./caretaker python benchmarks/compaction.py --long --data DIR  tables of an earlier run
    ./caretaker python benchmarks/compaction.py --long --one-core  everybody on the same processor

What is compared, in turns (A B C A B C), each in a process of its own:

- ours: the job `compact`, strategy full, from planning to verification, in one process and thread;
- java: the oracle's `compact` with one thread, from planning to commit, without the JVM's start;
  its collector and compiler use other processors, unless --one-core is given;
- floor: pyarrow decodes the same files and encodes as many rows as come out, into the columns of a
  data file (`_KEY_id` once more), with the same codec and level, one thread; no merge, no
  statistics of ours, no metadata.  It does not decode `_KEY_id`, because no reader needs it;
- copy: the bytes of the input are read and as many as came out are written, without decoding;
- flink (with --flink): Flink 2.0 with the official connector, `CALL sys.compact`, parallelism 1,
  without the start of the JVM and of the first job;
- spark (with --spark): ours as one Spark application on local[1], without the session's start.

In the end Java reads what both made of the table: counts and checksums of all rows must agree.
The oracle (real Java Paimon) is looked for in ../shared/oracle or $CARETAKER_ORACLE; without it the
library writes the tables itself and Java is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cases import COLUMNS, Case, kinds, tables
from figures import Figure, record
from processes import Measured, machine, run, run_step

CHECKOUT = Path(__file__).resolve().parent.parent
ORACLE = Path(os.environ.get("CARETAKER_ORACLE") or CHECKOUT.parent / "shared" / "oracle")
STEPS = str(Path(__file__).with_name("compaction_steps.py"))
WAYS = {
    "ours": "Caretaker",
    "floor": "floor, decode and encode",
    "copy": "floor, read and write bytes",
    "java": "Java 1.4.2",
    "flink": "Flink 2.0",
    "spark": "Caretaker on Spark local[1]",
}
KEEP_SNAPSHOTS = {"snapshot.num-retained.min": "100000", "snapshot.num-retained.max": "100000"}
"""Java's commit would otherwise expire snapshots of data that is older than an hour."""


# --- tables ---------------------------------------------------------------------------------------


def has_java() -> bool:
    return (ORACLE / "oracle").exists() and shutil.which("java") is not None


def java(warehouse: Path, *steps: dict[str, Any]) -> Measured:
    """The oracle's answers to steps on the table."""
    defaults = {"op": "defaults", "warehouse": str(warehouse), "database": "db", "table": "t"}
    text = "\n".join(json.dumps(s) for s in (defaults, *steps))
    return run([str(ORACLE / "oracle"), "-"], text=text)


def flink(warehouse: Path, like: dict[str, Any]) -> Measured:
    """A full compaction by Flink; rows and bytes are those of our own, which Java compares."""
    text = "\n".join(
        [
            "SET 'table.dml-sync' = 'true';",
            f"CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '{warehouse}');",
            "USE CATALOG lake;",
            # The first job loads the classes of Flink's runtime.
            "SELECT COUNT(*) FROM `db`.`t$snapshots`;",
            "CALL sys.compact(`table` => 'db.t', compact_strategy => 'full');",
            "SELECT SUM(record_count), COUNT(*) FROM `db`.`t$files`;",
        ]
    )
    command = [str(ORACLE / "flink-sql"), "-"]
    measured = run(command, text=text, environment={"FLINK_PARALLELISM": "1"})
    call = next(line for line in measured.lines if line.endswith("'full')"))
    if not call.startswith("OK"):
        raise SystemExit(f"Flink: {call}")
    seconds = float(call.split(" rows ")[1].split(" s ")[0])
    keep = ("input_rows", "input_bytes", "output_rows", "output_bytes")
    measured.answers.append({k: like[k] for k in keep} | {"seconds": seconds})
    return measured


def make_table(case: Case, warehouse: Path) -> None:
    """The table as the oracle writes it, or our own like it where there is no oracle."""
    if not has_java() or case not in tables(case.rows, case.commits):
        generate_table(case, warehouse)
        return
    create = {"op": "create_table", "columns": COLUMNS, "options": case.options}
    write = {"op": "gen_write", "n": case.rows, "commits": case.commits, "seed": case.seed}
    java(
        warehouse,
        {"op": "create_database"},
        {**create, "primary_keys": ["id"] if case.primary_key else []},
        {**write, "key_column": "id", "overlap": case.overlap},
    )


def generate_table(case: Case, warehouse: Path) -> None:
    """A table as the library writes it; Java, where there is one, compacts the base."""
    names = ("primary_key", "rows", "commits", "overlap", "seed", "options", "text_bytes")
    request = {name: getattr(case, name) for name in names}
    request |= {"warehouse": str(warehouse), "columns": [dict(c) for c in case.columns]}
    if case.base:
        run_step(STEPS, "generate", **request, until=case.base)
        if has_java():
            java(warehouse, {"op": "compact", "options": KEEP_SNAPSHOTS})
        else:
            run_step(STEPS, "ours", warehouse=str(warehouse))
    run_step(STEPS, "generate", **request, first=case.base)


def copy_table(source: Path, target: Path) -> Path:
    """A copy to compact.  It shares the data files by hard links, because no job changes them."""

    def link_data(file: str, place: str) -> None:
        if Path(file).name.startswith("data-"):
            try:
                os.link(file, place)
            except OSError:  # on another file system
                shutil.copyfile(file, place)
        else:
            shutil.copyfile(file, place)

    shutil.copytree(source, target, copy_function=link_data)
    return target


# --- the comparison -------------------------------------------------------------------------------


def compare(
    case: Case,
    source: Path,
    folder: Path,
    *,
    repetitions: int,
    more: Sequence[str],
    once: Sequence[str],
) -> Any:
    """Figures of all repetitions of one table; `more`: ways beside ours, the floors and Java's.

    Those in `once` are measured in the first repetition only.
    """
    ways = ["ours", "floor", "copy", *(["java"] if has_java() else []), *more, *once]
    figures: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for repetition in range(repetitions):
        for way in ways:
            if repetition and way in once:
                continue
            shutil.rmtree(folder / way, ignore_errors=True)
            warehouse = copy_table(source, folder / way)
            os.sync()
            load = os.getloadavg()[0]
            if way == "java":
                measured = java(warehouse, {"op": "compact", "options": KEEP_SNAPSHOTS})
            elif way == "flink":
                measured = flink(warehouse, figures["ours"][0])
            elif way == "copy":
                out = figures["ours"][0]["output_bytes"]
                measured = run_step(STEPS, "copy", warehouse=str(warehouse), bytes=out)
                measured.answer["output_rows"] = figures["ours"][0]["output_rows"]
            elif way == "floor":
                rows = figures["ours"][0]["output_rows"]
                measured = run_step(STEPS, "floor", warehouse=str(warehouse), rows=rows)
            else:
                measured = run_step(STEPS, "ours", warehouse=str(warehouse), spark=way == "spark")
            answer = {**measured.answer, "peak_mb": measured.peak_mb, "load": round(load, 1)}
            # Of Java all processor time is counted: its collector and compiler are at work, too.
            answer.setdefault("cpu_seconds", measured.cpu_seconds)
            figures[way].append(answer)
            print(
                f"{case.name} {repetition + 1}/{repetitions} {way}: {answer['seconds']:.1f} s, "
                f"load {load:.1f}",
                file=sys.stderr,
            )
    rows_out = {a["output_rows"] for answers in figures.values() for a in answers}
    if case.primary_key:
        # The floor takes a share of each file, rounded.
        rows_out = {a["output_rows"] for w, x in figures.items() if w != "floor" for a in x}
    if len(rows_out) != 1:
        raise SystemExit(f"{case.name}: numbers of rows differ: {sorted(rows_out)}")
    same = same_rows(folder) if has_java() else None
    return {"case": case.name, "figures": figures, "rows_equal": same}


def same_rows(folder: Path) -> dict[str, Any]:
    """Count and checksum of all rows, that Java reads alike from our result and from its own."""
    found = []
    for way in ("ours", "java"):
        answer = java(folder / way, {"op": "read", "checksum": True}).answer
        found.append({k: answer[k] for k in ("count", "checksum")})
    if found[0] != found[1]:
        raise SystemExit(f"rows differ: ours {found[0]}, Java's {found[1]}")
    return found[0]


def chosen(*, long: bool, every_kind: bool) -> list[Case]:
    """The tables to compact."""
    if every_kind:
        return kinds(2_000_000 if long else 200_000)
    return tables(5_000_000, 500) if long else tables(500_000, 50)


def middle(answers: list[dict[str, Any]], key: str) -> float:
    return float(statistics.median(a[key] for a in answers))


def table_lines(result: dict[str, Any]) -> list[str]:
    """The figures of one table as a Markdown table."""
    figures: dict[str, list[dict[str, Any]]] = result["figures"]
    lines = [
        "| case | way | s min / median / max | CPU s | rows/s | MB in -> out | files | RSS MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for way, answers in figures.items():
        seconds = sorted(a["seconds"] for a in answers)
        one = answers[0]
        files = f"{one['input_files']} -> {one['output_files']}" if "input_files" in one else ""
        lines.append(
            f"| {result['case']} | {way} "
            f"| {seconds[0]:.2f} / {statistics.median(seconds):.2f} / {seconds[-1]:.2f} "
            f"| {middle(answers, 'cpu_seconds'):.2f} "
            f"| {one['input_rows'] / statistics.median(seconds) / 1000:,.0f} k "
            f"| {one['input_bytes'] / 1e6:,.0f} -> {one['output_bytes'] / 1e6:,.0f} | {files} "
            f"| {max(a['peak_mb'] for a in answers):,.0f} |"
        )
    return lines


def verdict(result: dict[str, Any]) -> dict[str, Any]:
    """Ratios of medians of the same run, beside what is to be reached."""
    figures: dict[str, list[dict[str, Any]]] = result["figures"]
    ours = middle(figures["ours"], "seconds")
    ratios: dict[str, Any] = {
        "ours_to_floor": round(ours / middle(figures["floor"], "seconds"), 2),
        "ours_to_floor_cpu": round(
            middle(figures["ours"], "cpu_seconds") / middle(figures["floor"], "cpu_seconds"), 2
        ),
        "ours_peak_mb": round(max(a["peak_mb"] for a in figures["ours"])),
        "rows_equal": result["rows_equal"],
    }
    if "java" in figures:
        ratios["ours_to_java"] = round(ours / middle(figures["java"], "seconds"), 3)
        ratios["ours_to_java_cpu"] = round(
            middle(figures["ours"], "cpu_seconds") / middle(figures["java"], "cpu_seconds"), 3
        )
    return ratios


def recorded_figures(result: dict[str, Any]) -> list[Figure]:
    """The figures of one table for docs/performance.md."""
    case, found = result["case"], verdict(result)
    targets: dict[str, tuple[float, float]] = {"pk": (1.1, 100), "append": (1.1, 300)}
    floor, rate = targets.get(case, (None, None))
    ours = result["figures"]["ours"]
    figures = [
        Figure(name=f"{case}: {WAYS[way]}", value=round(middle(answers, "seconds"), 2), unit="s")
        for way, answers in result["figures"].items()
    ]
    if "ours_to_java" in found:
        ratio = round(1 / found["ours_to_java"], 1)
        figures.append(Figure(name=f"{case}: Java's time to Caretaker's", value=ratio))
    figures.append(
        Figure(
            name=f"{case}: ours to the floor, CPU", value=found["ours_to_floor_cpu"], target=floor
        )
    )
    figures.append(
        Figure(
            name=f"{case}: input per core",
            value=round(ours[0]["input_bytes"] / 1e6 / middle(ours, "cpu_seconds")),
            unit="MB/s",
            target=rate,
            at_least=True,
        )
    )
    figures.append(
        Figure(name=f"{case}: peak memory", value=found["ours_peak_mb"], unit="MB", target=1024)
    )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true", help="5 million rows instead of half a one")
    parser.add_argument("--repetitions", type=int, help="default: 3 with --long, else 1")
    parser.add_argument("--kinds", action="store_true", help="a table for each kind of merge")
    parser.add_argument("--case", metavar="NAME", help="only this table")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work here, leave the tables")
    parser.add_argument("--data", type=Path, metavar="DIR", help="take DIR/pk and DIR/append")
    parser.add_argument("--one-core", action="store_true", help="also Java's collector, compiler")
    parser.add_argument("--flink", action="store_true", help="measure Flink's `CALL sys.compact`")
    parser.add_argument("--flink-once", action="store_true", help="only in the first repetition")
    parser.add_argument("--spark", action="store_true", help="measure Spark on local[1], too")
    arguments = parser.parse_args()
    facts = machine()
    if arguments.one_core:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # children inherit it
    if not has_java():
        print(f"no oracle in {ORACLE.name}/, or no java: Java is left out", file=sys.stderr)
    repetitions = arguments.repetitions or (3 if arguments.long else 1)
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="compaction-"))
    results = []
    try:
        for case in chosen(long=arguments.long, every_kind=arguments.kinds):
            if arguments.case not in (None, case.name):
                continue
            source = (arguments.data or folder / "data") / case.name
            if not source.exists():
                if arguments.data:
                    raise SystemExit(f"there is no table in {source}")
                print(f"making {case.name}", file=sys.stderr)
                make_table(case, source)
            results.append(
                compare(
                    case,
                    source,
                    folder / "copies" / case.name,
                    repetitions=repetitions,
                    more=[way for way in ("flink", "spark") if getattr(arguments, way)],
                    once=["flink"] if arguments.flink_once else [],
                )
            )
            shutil.rmtree(folder / "copies")
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    for result in results:
        print(*table_lines(result), "", sep="\n")
        record(recorded_figures(result))
    summary = {r["case"]: verdict(r) for r in results}
    print(
        json.dumps(
            {
                "machine": facts,
                "one_core": arguments.one_core,
                "summary": summary,
                "results": results,
            }
        )
    )


if __name__ == "__main__":
    main()
