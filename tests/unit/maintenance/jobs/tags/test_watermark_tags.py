"""Automatic tags by watermark where a watermark is no time that a period could be named after."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_maintenance.job.exit_codes import ExitCode


@pytest.mark.parametrize("end", [2**63 - 1, 253_402_300_800_000, -(2**63) + 1])
def test_a_watermark_beyond_all_years_gets_no_tag(lake: Lake, end: int) -> None:
    lake.log(**{"tag.automatic-creation": "watermark"})
    lake.fill(2)
    for number, watermark in ((1, 86_400_000), (2, end)):
        path = Path(lake.table().paths.snapshot(number))
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {"watermark": watermark}))
    ran = caretaker("run", "trigger_tag_automatic_creation", "db.t", "-w", lake.warehouse)
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert list(lake.table().tags.names()) == ["1970-01-01"]
