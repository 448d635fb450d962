"""Repairs and rollbacks of partitioned tables, over changes of the schema."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.operations.health.damaged_table import live
from widetable.format import data_file_writer

SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int32()), ("a", pa.int32()), ("b", pa.string())])


def rows(value: int, keys: range = range(40), **more: list[object]) -> pa.Table:
    count = len(keys)
    columns = {"p": ["x y" if k % 2 else "z" for k in keys], "k": list(keys)}
    return pa.table({**columns, "a": [value] * count, **more})


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> wt.Table:
    """Two commits, then a column renamed, one widened and one added, then a third commit."""
    monkeypatch.setattr(data_file_writer, "ROW_GROUP_ROWS", 5)
    catalog = wt.Catalog(str(tmp_path))
    made = catalog.create_table(
        "d.t",
        SCHEMA,
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": "1", "widetable.fsync": "false", "write-only": "true"},
    )
    made.write(rows(1, b=["b"] * 40))
    made.compact(full=True)
    made.write(rows(2, range(10), b=["c"] * 10))
    catalog.alter_table(
        "d.t",
        rename_columns={"b": "c"},
        change_types={"a": pa.int64()},
        add_columns=[pa.field("d", pa.float64())],
    )
    made.write(rows(3, range(30, 50), c=["d"] * 20, d=[0.5] * 20))
    return made


def all_rows(
    table: wt.Table, snapshot_id: int | None = None
) -> dict[tuple[str, int], dict[str, object]]:
    found = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return {(row["p"], row["k"]): row for row in found}


def test_a_file_of_an_older_schema_is_salvaged_into_the_newest(table: wt.Table) -> None:
    whole = all_rows(table)
    entry = next(e for e in live(table) if e.file.level > 0)
    (path,) = Path(table.path).rglob(entry.file.file_name)
    data = bytearray(path.read_bytes())
    data[20] ^= 1  # in the first page of the first row group
    path.write_bytes(data)
    with pytest.raises(wt.DamagedError):
        table.compact(full=True)
    (file,) = table.repair().files
    assert file.damage.partition in ("p=x y", "p=z")
    assert file.kept_rows + file.lost_rows == 20
    assert file.kept_rows > 0
    found = all_rows(table)
    assert {key: whole[key] for key in found} == found
    assert len(whole) - len(found) <= file.lost_rows
    table.compact(full=True)
    assert all_rows(table) == found
    assert table.doctor(deep=True).ok


def test_a_rollback_keeps_the_newest_columns(table: wt.Table) -> None:
    then = all_rows(table, snapshot_id=3)
    table.rollback(3)
    assert all_rows(table) == {
        key: {"p": row["p"], "k": row["k"], "a": row["a"], "c": row["b"], "d": None}
        for key, row in then.items()
    }
    table.compact(full=True)
    assert len(all_rows(table)) == len(then)


def test_a_rollback_past_another_number_of_buckets_keeps_that_of_the_files(table: wt.Table) -> None:
    """As another client may have altered it."""
    then = table.scan(snapshot_id=1).to_arrow()
    schema = Path(table.path, "schema", f"schema-{table.schema.id}")
    schema.write_text(schema.read_text().replace('"bucket": "1"', '"bucket": "2"'))
    assert '"2"' in schema.read_text()
    altered = wt.Table.open(table.path)
    altered.rollback(1)
    key = list(table.schema.primary_keys)
    assert altered.scan(columns=key).to_arrow() == then.select(key)
    assert altered.lookup(then.select(key))[key[0]].null_count == 0
