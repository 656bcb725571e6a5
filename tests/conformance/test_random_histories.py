"""Random lives of a table, its upkeep done by Java on one copy and by us on the other.

Java writes, compacts and overwrites on both.  After each step the same snapshots, tags, changelogs
and consumers are there; in the end every one of them reads the same, in Java too, the table is
whole, and after our orphan job the files on disk are those that are referenced.

CARETAKER_LONG=N tries N more of each kind of table than the one that is always the same.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from disk import assert_no_leftovers, assert_whole
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_run import LONG_CASES
from replay import run_step

from oracle import Oracle

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
DAYS = ("2020-01-01", "2020-06-01", "2999-01-01")
KEYED = {"primary_keys": ["dt", "k"], "partition_keys": ["dt"]}
DECOUPLED = {"changelog.num-retained.min": "3", "changelog.num-retained.max": "5"}
TABLES: dict[str, dict[str, Any]] = {
    "primary_key": {**KEYED, "options": {"bucket": "2"}},
    "append": {"partition_keys": ["dt"], "options": {"bucket": "-1"}},
    "input": {**KEYED, "options": {"bucket": "1", "changelog-producer": "input"}},
    "dynamic": {**KEYED, "options": {"bucket": "-1"}},
    "vectors": {**KEYED, "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
    "decoupled": {
        **KEYED,
        "options": {"bucket": "1", "changelog-producer": "input", **DECOUPLED},
    },
}
Op = tuple[str, int, int]
Steps = dict[str, Any]

# What makes a history, and what keeps it within bounds: the more often it stands here, the more.
WORDS = (
    *("write",) * 6,
    *("compact",) * 2,
    "overwrite",
    "drop",
    *("tag",) * 3,
    "brief_tag",
    "branch",
    "write_branch",
    "consumer",
    "no_consumer",
    *("expire",) * 4,
    "expire_changelogs",
    *("delete_tag",) * 2,
    "expire_tags",
    "back_to_tag",
    "back_to_snapshot",
    "expire_partitions",
    "manifests",
)
OPS = st.tuples(st.sampled_from(WORDS), st.integers(0, 9), st.integers(0, 9))


@dataclass
class Life:
    """One table twice, and what is known about it."""

    kind: str
    folder: Path
    oracle: Oracle
    step: int = 0
    tags: int = 0
    branches: dict[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        table = TABLES[self.kind]
        options = {"write-only": "true", **table["options"]}
        create = {"op": "create_table", "columns": COLUMNS, **table, "options": options}
        self.both_in_java(create)

    # --- where ---------------------------------------------------------------------------------

    def at(self, who: str) -> dict[str, str]:
        return {"warehouse": str(self.folder / who), "database": "db", "table": "t"}

    def root(self, who: str) -> Path:
        return self.folder / who / "db.db" / "t"

    def numbers(self, who: str, what: str) -> list[int]:
        found = self.root(who).glob(f"{what}/{what}-*")
        return sorted(int(p.name.removeprefix(f"{what}-")) for p in found)

    def names(self, who: str, what: str) -> list[str]:
        return sorted(p.name for p in self.root(who).glob(f"{what}/{what}-*"))

    # --- doing ---------------------------------------------------------------------------------

    def both_in_java(self, step: Steps) -> None:
        for who in ("java", "ours"):
            self.oracle([{**self.at(who), **step}])

    def each_its_own(self, step: Steps) -> None:
        """Java on its copy, we on ours; both may refuse, but not one alone."""
        (theirs,) = self.oracle([{**self.at("java"), **step}], check=False)
        mine = run_step({**self.at("ours"), **step})
        assert ("error" in theirs) == ("error" in mine), (step, theirs, mine)

    def same(self, op: Op) -> None:
        for what in ("snapshot", "changelog"):
            assert self.numbers("ours", what) == self.numbers("java", what), (op, what)
        for what in ("tag", "consumer"):
            assert self.names("ours", what) == self.names("java", what), (op, what)

    def rows(self, a: int, b: int, days: tuple[str, ...] = DAYS) -> list[dict[str, Any]]:
        """A few rows that depend on the numbers and the step alone."""
        kinds = ("+I",) if self.kind == "append" else ("+I", "+U", "-D")
        return [
            {
                "kind": kinds[(i * b) % len(kinds)],
                "values": [(a * 7 + i * 3) % 13, f"s{self.step}", days[(i + b) % len(days)]],
            }
            for i in range(1 + (a + b) % 5)
        ]

    def do(self, op: Op) -> None:
        """One step, if there is something for it to do."""
        word, a, b = op
        self.step += 1
        method: Callable[[int, int], None] = getattr(self, f"_{word}")
        method(a, b)
        self.same(op)

    # --- the words -----------------------------------------------------------------------------

    def _write(self, a: int, b: int) -> None:
        self.both_in_java({"op": "write", "rows": self.rows(a, b), "compact": False})

    def _compact(self, a: int, _: int) -> None:
        if self.numbers("ours", "snapshot"):
            self.both_in_java({"op": "compact", "full": a != 0})

    def _overwrite(self, a: int, b: int) -> None:
        day = DAYS[a % 3]
        rows = [{"kind": "+I", "values": r["values"]} for r in self.rows(a, b, (day,))]
        rows = list({r["values"][0]: r for r in rows}.values())
        self.both_in_java({"op": "overwrite", "partition": {"dt": day}, "rows": rows})

    def _drop(self, a: int, _: int) -> None:
        if self.numbers("ours", "snapshot"):
            self.both_in_java({"op": "drop_partition", "partitions": [{"dt": DAYS[a % 3]}]})

    def _tag(self, a: int, _: int, **fields: Any) -> None:
        ids = self.numbers("ours", "snapshot")
        if ids:
            self.tags += 1
            step = {"op": "create_tag", "name": f"t{self.tags}", "snapshot": ids[a % len(ids)]}
            self.each_its_own(step | fields)

    def _brief_tag(self, a: int, b: int) -> None:
        self._tag(a, b, time_retained="1 ms")

    def _branch(self, a: int, _: int) -> None:
        """Only from a tag whose snapshot is there: Java cannot do it from another."""
        ids = self.numbers("ours", "snapshot")
        if ids and not self.branches:
            self.tags += 1
            name = f"b{self.tags}"
            tag = {"op": "create_tag", "name": f"t{self.tags}", "snapshot": ids[a % len(ids)]}
            self.each_its_own(tag)
            self.each_its_own({"op": "create_branch", "name": name, "tag": tag["name"]})
            self._note_branch(name)

    def _write_branch(self, a: int, b: int) -> None:
        """On our copy alone: Java's expiry on main may have broken the branch of its own."""
        for name in self.branches:
            step = {"op": "write", "rows": self.rows(a, b), "compact": False, "branch": name}
            self.oracle([{**self.at("ours"), **step}])
            self._note_branch(name)

    def _note_branch(self, name: str) -> None:
        self.branches[name] = self.oracle.rows(**self.at("ours"), branch=name)

    def _consumer(self, a: int, b: int) -> None:
        ids = self.numbers("ours", "snapshot")
        if ids:
            step = {"op": "set_consumer", "id": f"c{b % 2}", "next_snapshot": ids[a % len(ids)]}
            self.each_its_own(step)

    def _no_consumer(self, _: int, b: int) -> None:
        self.each_its_own({"op": "delete_consumer", "id": f"c{b % 2}"})

    def _expire(self, a: int, b: int) -> None:
        least, most = 1 + a % 3, 1 + a % 3 + b % 4
        if self.kind == "decoupled":
            # 1.4.2's procedure forgets the changelog options, so it is done as a commit does it.
            options = {
                "snapshot.num-retained.min": str(least),
                "snapshot.num-retained.max": str(most),
                "snapshot.time-retained": "1 ms" if b % 2 else "1 h",
            }
            (theirs,) = self.oracle(
                [
                    {
                        "op": "expire_snapshots",
                        **self.at("java"),
                        "as_commit": True,
                        "options": options,
                    }
                ],
                check=False,
            )
            mine = run_step({"op": "expire_snapshots", **self.at("ours"), "options": options})
            assert ("error" in theirs) == ("error" in mine), (theirs, mine)
            return
        self.each_its_own(
            {
                "op": "expire_snapshots",
                "retain_min": least,
                "retain_max": most,
                "time_retained": "1 ms" if b % 2 else "1 h",
                "max_deletes": 2 if a == 9 else 50,
            }
        )

    def _expire_changelogs(self, a: int, b: int) -> None:
        if self.kind == "decoupled":
            least = 1 + a % 3
            self.each_its_own(
                {
                    "op": "expire_changelogs",
                    "retain_min": least,
                    "retain_max": least + b % 3,
                    "time_retained": "1 h",
                }
            )

    def _delete_tag(self, a: int, _: int) -> None:
        names = self.names("ours", "tag")
        if names:
            name = names[a % len(names)].removeprefix("tag-")
            self.each_its_own({"op": "delete_tag", "name": name})

    def _expire_tags(self, _: int, __: int) -> None:
        time.sleep(0.003)
        self.each_its_own({"op": "auto_tag"})

    def _back_to_tag(self, a: int, _: int) -> None:
        names = self.names("ours", "tag")
        if names:
            name = names[a % len(names)].removeprefix("tag-")
            self.each_its_own({"op": "rollback_to", "tag": name})

    def _back_to_snapshot(self, a: int, _: int) -> None:
        ids = self.numbers("ours", "snapshot")
        if ids:
            self.each_its_own({"op": "rollback_to", "snapshot": ids[a % len(ids)]})

    def _expire_partitions(self, a: int, _: int) -> None:
        if self.numbers("ours", "snapshot"):
            time_ = ("10 d", "100000 d")[a % 2]
            self.each_its_own({"op": "expire_partitions", "expiration_time": time_})

    def _manifests(self, _: int, __: int) -> None:
        if self.numbers("ours", "snapshot"):
            self.each_its_own({"op": "compact_manifests"})

    # --- the end -------------------------------------------------------------------------------

    def check(self) -> None:
        warehouse = self.folder / "ours"
        versions: list[Steps] = [{"snapshot": i} for i in self.numbers("ours", "snapshot")]
        versions += [{"tag": t.removeprefix("tag-")} for t in self.names("ours", "tag")]
        for version in versions:
            theirs = self.oracle.rows(**self.at("java"), **version)
            assert self.oracle.rows(**self.at("ours"), **version) == theirs, version
            own = run_step({"op": "read", **self.at("ours"), **version})
            assert own.get("rows") == theirs, (version, own)
        for name, rows in self.branches.items():
            assert self.oracle.rows(**self.at("ours"), branch=name) == rows, name
        assert_whole(warehouse)
        before = {p for p in self.root("ours").rglob("*") if p.is_file()}
        now = time.time_ns() // 1_000_000
        assert "error" not in run_step(
            {"op": "remove_orphan_files", **self.at("ours"), "older_than_millis": now}
        )
        assert_no_leftovers(warehouse)
        after = {p for p in self.root("ours").rglob("*") if p.is_file()}
        # Java writes a changelog for an overwrite, and does not commit it.
        ours = [p for p in before - after if not p.name.startswith("changelog-")]
        assert not ours, "our own jobs left orphans"


def live(kind: str, ops: list[Op], oracle: Oracle) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(kind, Path(folder), oracle)
        for i in range(2):
            life.do(("write", i, i))
        for op in ops:
            life.do(op)
        life.do(("expire", 0, 3))
        life.check()


# What random histories failed at once, as short as they could be made.
KEPT: dict[str, tuple[str, list[Op]]] = {
    "a changelog of an overwrite that Java does not commit": ("input", [("overwrite", 0, 0)]),
}


@pytest.mark.parametrize("case", KEPT)
def test_kept(case: str, oracle: Oracle) -> None:
    kind, ops = KEPT[case]
    live(kind, ops, oracle)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", TABLES)
def test_seeded_histories(kind: str, oracle: Oracle) -> None:
    rng = random.Random(f"{kind} {oracle.version}")
    live(
        kind, [(rng.choice(WORDS), rng.randint(0, 9), rng.randint(0, 9)) for _ in range(20)], oracle
    )


@pytest.mark.skipif(not LONG_CASES, reason="CARETAKER_LONG=N tries N histories")
@pytest.mark.parametrize("kind", TABLES)
def test_random_histories(kind: str, oracle: Oracle) -> None:
    @settings(
        max_examples=LONG_CASES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(OPS, min_size=1, max_size=26))
    def run(ops: list[Op]) -> None:
        live(kind, ops, oracle)

    run()
