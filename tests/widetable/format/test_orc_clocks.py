"""Instants in ORC files of Java, whose clocks are the values by default, and what a machine without time zones says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.format.data_files import batch_of, read, table_schema, write
from tests.widetable.format.foreign_files import write_orc
from widetable.errors import InvalidError, UnsupportedError
from widetable.format.data_file_meta import DataFileMeta
from widetable.schema.table_schema import TableSchema

OPTION = "orc.timestamp-ltz.legacy.type"
STORED = [0, 1_000_000_000_000_000]
HOUR = 3_600_000_000


def schema_with(**options: str) -> TableSchema:
    columns = {"k": "INT", "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
    return table_schema(columns, **options)


def orc_file(folder: Path, zone: bytes = b"GMT", *, is_java: bool = True) -> tuple[Path, Any]:
    """Instants written by ORC's C++; the tail then names Java as the writer, in a zone of three letters."""
    batch = batch_of(schema_with(), {"k": [1, 2], "z": STORED})
    meta = write(folder / "data.parquet", schema_with(), [batch])
    path = folder / "data.orc"
    meta = write_orc(path, pa.Table.from_batches([batch]), meta, compression="uncompressed")
    data = path.read_bytes()
    assert (data.count(b"GMT"), data.count(b"\x48\x01")) == (1, 1)
    data = data.replace(b"GMT", zone)
    path.write_bytes(data.replace(b"\x48\x01", b"\x48\x00") if is_java else data)
    return path, meta


def instants(path: Path, meta: DataFileMeta, schema: TableSchema) -> list[int]:
    return list(read(path, meta, schema).column("z").cast(pa.int64()).to_pylist())


@pytest.mark.parametrize("text", [None, "true", " TRUE ", "false", "False"])
def test_the_option_says_whether_clocks_are_values(tmp_path: Path, text: str | None) -> None:
    path, meta = orc_file(tmp_path, b"EST")
    schema = schema_with(**({} if text is None else {OPTION: text}))
    is_legacy = text is None or text.strip().lower() == "true"
    shift = -5 * HOUR if is_legacy else 0
    assert instants(path, meta, schema) == [value + shift for value in STORED]


@pytest.mark.parametrize("text", ["flase", "", "1", "no"])
def test_another_text_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path, meta = orc_file(tmp_path, b"EST")
    with pytest.raises(InvalidError, match=OPTION):
        instants(path, meta, schema_with(**{OPTION: text}))


def test_what_the_c_library_wrote_is_an_instant(tmp_path: Path) -> None:
    path, meta = orc_file(tmp_path, b"EST", is_java=False)
    assert instants(path, meta, schema_with()) == STORED


def test_a_table_can_be_made_with_the_option(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    columns = pa.schema([("k", pa.int64())])
    table = catalog.create_table("d.t", columns, primary_key=["k"], options={OPTION: "false"})
    assert table.schema.options[OPTION] == "false"
    with pytest.raises(InvalidError, match=OPTION):
        catalog.create_table("d.u", columns, primary_key=["k"], options={OPTION: "flase"})


def test_a_machine_without_time_zones_is_no_damage(tmp_path: Path) -> None:
    """Repairing would lose the rows."""
    program = """
import os, sys
from pathlib import Path
from tests.widetable.format.test_orc_clocks import instants, orc_file, schema_with
from widetable.errors import UnsupportedError
folder = Path(sys.argv[1])
path, meta = orc_file(folder)
os.environ["TZDIR"] = str(folder / "nothing")  # where ORC's C++ looks
try:
    instants(path, meta, schema_with())
except UnsupportedError as refused:
    assert refused.subject == str(path), refused
    print(refused)
"""
    found = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "Install the tz database" in found.stdout
    assert "'GMT'" in found.stdout


def test_a_zone_that_nobody_knows_is_no_damage(tmp_path: Path) -> None:
    path, meta = orc_file(tmp_path, b"Qqq")
    with pytest.raises(UnsupportedError, match="tz database"):
        instants(path, meta, schema_with())
