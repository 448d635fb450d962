"""The whole demo, small: four Spark streams, the audit, the report, and a second run over the first."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import widetable as wt
from examples.flights.wide_table import TABLE_NAME, TABLE_SCHEMA

ROOT = Path(__file__).parents[2]
FLIGHT_COUNT = 2_000


@pytest.mark.slow
def test_the_demo_fills_the_table_and_no_cell_differs(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("of an earlier run")
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "left-over").write_text("of an earlier run")
    arguments = ["--flights", str(FLIGHT_COUNT), "--months", "2", "--root", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-m", "examples.flights", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    cells = FLIGHT_COUNT * len(TABLE_SCHEMA)
    assert f"{cells:,} cells compared, 0 different" in run.stdout
    assert not (tmp_path / "warehouse" / "left-over").exists()
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")

    table = wt.Catalog(str(tmp_path / "warehouse")).table(TABLE_NAME)
    assert table.scan().to_arrow().num_rows == FLIGHT_COUNT
    appends = [snapshot for snapshot in table.snapshots() if snapshot.commit_kind == "APPEND"]
    assert len({snapshot.commit_user for snapshot in appends}) == 4
    assert len(appends) == len({(each.commit_user, each.commit_identifier) for each in appends})
    assert re.search(r"schedule +100 %", run.stdout)
