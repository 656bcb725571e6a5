"""A manifest list that counts nulls of other columns than the partition's is corrupt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_core.errors import CorruptTable
from paimon_core.manifest.manifest_list import read_manifest_list, write_manifest_list
from paimon_core.scan.scan import scan_files


@pytest.mark.parametrize("counts", [(0, 0), (0,) * 40])
def test_wrong_number_of_null_counts(tmp_path: Path, counts: tuple[int, ...]) -> None:
    lake = Lake(tmp_path / "w")
    lake.primary_key(partitioned=True)
    lake.fill(2)
    table = lake.table()
    snapshot = table.latest_or_not_found()
    path = table.paths.manifest(snapshot.delta_manifest_list)
    (listed,) = read_manifest_list(table.io, path)
    lying = replace(listed, partition_stats=replace(listed.partition_stats, null_counts=counts))
    name, _ = write_manifest_list(
        table.io, table.paths, [lying], options=table.options, new_uuid=lambda: str(uuid4())
    )
    Path(table.paths.manifest(name)).replace(path)
    partitions = {e.partition for e in scan_files(table, snapshot)}
    with pytest.raises(CorruptTable, match="nulls of"):
        list(scan_files(table, snapshot, partitions=partitions))
    for job, more in (
        ("drop_partition", ("--partition", "dt=day0")),
        ("expire_snapshots", ("--retain-max", 1, "--retain-min", 1)),
        ("compact", ("--strategy", "full")),
    ):
        ran = caretaker("run", job, "db.t", "-w", lake.warehouse, "--force", *more)
        assert "report this bug" not in ran.err, ran.err
        assert ran.code in (0, 7), ran.err
