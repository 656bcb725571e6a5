"""The benchmarks of docs/performance.md, their arguments, and what they show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MINUTE: Final = 60
_MADE: Final = "{made}"
"""In arguments: the folder for tables that several benchmarks share."""
_PATIENCE: Final = 4
"""A benchmark is stopped after this many times its expected minutes."""
_LEAST_MINUTES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One benchmark: its script, the arguments for each size of a run, and what it shows.

    `minutes` is what the normal size takes on four quiet processors; `large` is `normal` where it
    is empty.
    """

    name: str
    title: str
    about: str
    script: str
    minutes: float
    normal: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    large: tuple[str, ...] = ()
    large_minutes: float = 0.0
    only_large: bool = False

    def command(self, size: str, made: str) -> tuple[str, ...]:
        """The command line, from the root of the checkout."""
        words = {"short": self.short, "large": self.large or self.normal}.get(size, self.normal)
        return (f"benchmarks/{self.script}.py", *(w.replace(_MADE, made) for w in words))

    def limit_seconds(self, size: str) -> float:
        """When to stop it."""
        minutes = max(self.minutes, self.large_minutes if size == "large" else 0.0)
        return _MINUTE * max(_LEAST_MINUTES, _PATIENCE * minutes)


PARTS: Final = (
    Part(
        name="compaction",
        title="Compaction on one core",
        about="A full compaction of 5 million rows of 11 columns, everybody held to the same core: *pk* has "
        "ten runs of which 30 % overlap, *append* 500 small files. One floor decodes and encodes the same "
        "rows with pyarrow and does nothing else; the other reads and writes the bytes without decoding. "
        "Java is Paimon 1.4.2, Flink is 2.0 with the official connector (`CALL sys.compact`). Java reads "
        "equal rows from both results.",
        script="compaction",
        minutes=6,
        normal=("--long", "--one-core", "--repetitions", "2", "--flink-once"),
        short=("--one-core", "--flink-once"),
        large=("--long", "--one-core", "--flink"),
        large_minutes=10,
    ),
    Part(
        name="new_tenth",
        title="Compaction where a tenth of the keys is new",
        about="CPU seconds of a full compaction to those of decoding and encoding all rows. Five commits wrote "
        "half the keys of a tenth again, in one stretch or in ten, over one file or files of 128 MB.",
        script="new_tenth",
        minutes=2.5,
        normal=("--rows", "3000000", "--times", "9"),
        short=("--rows", "500000", "--times", "1"),
        large=("--rows", "5000000", "--times", "3"),
    ),
    Part(
        name="slices",
        title="One huge bucket in slices",
        about="One bucket of 1.2 GB in 12 overlapping runs: CPU seconds of all slices to those of the bucket as "
        "a whole.",
        script="slices",
        minutes=3,
        normal=(
            *("--rows", "12000000", "--slice-mb", "300", "--slice-mb", "128"),
            *("--made", f"{_MADE}/bucket-12m"),
        ),
        short=("--rows", "2000000", "--slice-mb", "50", "--made", f"{_MADE}/bucket-2m"),
    ),
    Part(
        name="cluster",
        title="One huge bucket on a cluster",
        about="The same bucket on a standalone cluster with one, two and four executors of 512 MB, each held to a quarter "
        "of a processor, so that four do not wait for each other on a small machine. The phase `execute` includes the start of Spark, "
        "which takes four times as long with this limit, and is measured without the archive of `caretaker spark-archive`; the slices "
        "do not. Efficiency is the speed-up by the number of executors.",
        script="cluster",
        minutes=4,
        normal=("--rows", "12000000", "--share", "0.25", "--made", f"{_MADE}/bucket-12m"),
        short=(
            *("--rows", "2000000", "--executors", "1", "2", "--slice-mb", "50"),
            *("--made", f"{_MADE}/bucket-2m"),
        ),
    ),
    Part(
        name="cluster_10gb",
        title="10 GB in one bucket on a cluster",
        about="The same with 100 million rows in 12 overlapping runs.",
        script="cluster",
        minutes=30,
        large_minutes=30,
        normal=(
            *("--rows", "100000000", "--executors", "1", "4", "--share", "0.25"),
            *("--made", f"{_MADE}/bucket-100m"),
        ),
        short=("--rows", "4000000", "--executors", "1", "2"),
        only_large=True,
    ),
    Part(
        name="small_tables",
        title="Small tables",
        about="The start of the command line; five files of 60 KB on an S3 server where each request takes 20 ms "
        "longer; 200 tables by one command, in one DAG run and in one Spark application; a table of 12 "
        "files and 19 KB through a warm session of Spark Connect, and by commands that start Spark without and with "
        "the archive of `caretaker spark-archive`.",
        script="small_tables",
        minutes=5,
        normal=("--times", "5", "--spark"),
        short=("--tables", "20", "--times", "2", "--spark"),
    ),
    Part(
        name="million_files",
        title="A million files",
        about="Each command is a process of its own over a table of a million files in 100,000 partitions and "
        "10,000 snapshots, with JSON output, one after the other. Seconds have a limit for plans, memory for all "
        "commands.",
        script="million_files",
        minutes=12,
        normal=("--files", "10000", "100000", "1000000", "--listed", "--made", f"{_MADE}/million"),
        short=("--files", "2000", "10000", "--listed"),
    ),
    Part(
        name="scheduling",
        title="Rounds of the scheduler",
        about="One round of the scheduler in one process: look at all tables, measure those that changed (2 %), "
        "and decide; then the same with the jobs that it runs.",
        script="scheduling_round",
        minutes=4.5,
        normal=("--tables", "2000", "10000"),
        short=("--tables", "200"),
    ),
    Part(
        name="predictions",
        title="Predicted and measured seconds",
        about="Errors of the scheduler's predictions after 20 jobs, compactions and upkeep, of the demo's tables, "
        "of twelve small ones (300 to 60,000 rows) and of ones ten times larger. *Least of 3* runs each job three "
        "times on copies of the table and takes the least seconds; *single* takes the first run, *single by the "
        "others* predicts it by the other two runs of the very same job: no model does better.",
        script="cost_predictions",
        minutes=6,
        short=("--sets", "small", "--runs", "25", "--repeat", "1"),
    ),
    Part(
        name="commits",
        title="From a commit to a healthy table",
        about="200 tables in a lake that Airflow watches, a commit every 10 seconds, until its partition is "
        "compacted. Every 60 seconds a worker, the triggerer or a Spark driver is killed; every fourth table is "
        "compacted on Spark.",
        script="commit_to_healthy",
        minutes=10,
        normal=("--minutes", "8", "--kill-every", "60", "--on-spark", "4"),
        short=("--minutes", "1", "--tables", "20"),
    ),
    Part(
        name="page",
        title="The routes of the page",
        about="Requests one after the other to Airflow's application with a history of 2,000 tables, 100,000 runs, and "
        "2,016 rounds in SQLite. The routes of one table read a table of 1,000 snapshots.",
        script="page_routes",
        minutes=1.5,
        short=("--tables", "200", "--runs", "2000", "--requests", "20"),
    ),
    Part(
        name="requests",
        title="Requests to a store",
        about="Requests of each job to an S3 store for a table of 80 files and 40 snapshots; with `--large`, of 10,000 "
        "files and 200 snapshots. They do not depend on the machine.",
        script="store_requests",
        minutes=0.5,
        large=("--large",),
        large_minutes=5,
    ),
    Part(
        name="bulk_write",
        title="Bulk writes",
        about="Rows of the columns above in one commit: the library, the Spark source, and Java's core writer. *Spark* "
        "includes the start of the Python workers, *spark again* is a second commit of the same application.",
        script="bulk_write",
        minutes=1.5,
        normal=("--rows", "3000000"),
        short=("--rows", "200000"),
        large=("--rows", "10000000"),
    ),
    Part(
        name="tpch",
        title="TPC-H through SQL",
        about="Time of all 22 queries over Paimon tables to that of the same queries by Spark over Parquet files. "
        "*pk* are tables of four overlapping runs, merged as they are read. All answers are compared.",
        script="tpch",
        minutes=3,
        normal=("--scale", "0.2", "--times", "1"),
        short=("--scale", "0.01", "--times", "1", "--queries", "1,6"),
        large=("--scale", "1", "--times", "2", "--folder", f"{_MADE}/tpch-1"),
        large_minutes=15,
    ),
)
