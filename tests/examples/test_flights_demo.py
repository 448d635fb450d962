"""The whole demo, small: five Spark queries, both tables checked, the report, and a wrong value that is found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from examples.flights.carrier_hourly import HOURLY_NAME
from examples.flights.second_layer import COMMIT_USER
from examples.flights.wide_table import TABLE_NAME, TABLE_SCHEMA
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
FLIGHT_COUNT = 2_000


@pytest.mark.slow
def test_the_demo_fills_both_tables_and_finds_a_wrong_value(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("of an earlier run")
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "left-over").write_text("of an earlier run")
    run = _demo("--flights", str(FLIGHT_COUNT), "--months", "2", "--root", str(tmp_path))
    assert run.returncode == 0, run.stdout + run.stderr
    cells = FLIGHT_COUNT * len(TABLE_SCHEMA)
    assert f"{cells:,} cells compared: 0 different" in run.stdout
    assert re.search(r"schedule +100 %", run.stdout)
    assert not (tmp_path / "warehouse" / "left-over").exists()
    report = (tmp_path / "report.html").read_text()
    assert report.startswith("<!doctype html>")
    assert "vegaEmbed=" in report.replace(" ", ""), "the page brings along what draws its charts"
    assert report.count("<script") == report.count("</script") == 3
    assert re.search(r"ran batch \d+ again, found its commit in the table", report)
    assert "Traceback" not in run.stderr

    catalog = wt.Catalog(str(tmp_path / "warehouse"))
    _check_wide(catalog.table(TABLE_NAME))
    hourly = catalog.table(HOURLY_NAME)
    _check_hourly(hourly)
    _plant(hourly)
    check = _demo("--check", "--root", str(tmp_path))
    assert check.returncode == 1, check.stdout + check.stderr
    assert f"{cells:,} cells compared: 0 different" in check.stdout
    assert re.search(r"cells compared: 1 different\n +delay_sum of \(2013-01, UA, ", check.stdout)


def _demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.flights", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def _check_wide(table: wt.Table) -> None:
    assert table.scan().to_arrow().num_rows == FLIGHT_COUNT
    appends = [snapshot for snapshot in table.snapshots() if snapshot.commit_kind == "APPEND"]
    assert len({snapshot.commit_user for snapshot in appends}) == 4
    assert len(appends) == len({(each.commit_user, each.commit_identifier) for each in appends})


def _check_hourly(hourly: wt.Table) -> None:
    assert pc.sum(hourly.scan(columns=["flights"]).to_arrow()["flights"]).as_py() == FLIGHT_COUNT
    appends = [each for each in hourly.snapshots() if each.commit_kind == "APPEND"]
    assert {each.commit_user for each in appends} == {COMMIT_USER}
    # One batch that counts is enough: a slow start of Spark may find all of the wide table's changes there.
    assert len(appends) == len({each.commit_identifier for each in appends}) > 0


def _plant(hourly: wt.Table) -> None:
    """One minute too many in one sum."""
    rows = hourly.scan(filter="carrier = 'UA' AND month = '2013-01'").to_arrow().slice(0, 1)
    index = rows.schema.get_field_index("delay_sum")
    wrong = pa.chunked_array([pc.add(rows["delay_sum"], 1).combine_chunks()])
    hourly.write(rows.set_column(index, rows.schema.field(index), wrong))
