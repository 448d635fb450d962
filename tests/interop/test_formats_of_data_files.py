"""Tables whose files are ORC or Avro, written by pypaimon: read, changed and compacted here as it reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.conftest import Reader
from tests.interop.test_pypaimon import ALL_TYPES, KEY, create, ours

# What pypaimon does not write (Avro: maps, nulls in arrays, other precisions), or reads wrong (the year 9999 in ORC).
NOT_THERE = {
    "avro": ("c_map", "c_deep", "c_array", "c_row", "c_ts9", "c_ts0", "c_fixed"),
    "orc": ("c_ts6",),
}


def set_format(table: wt.Table, name: str | None) -> wt.Table:
    """The option as another client sets it; None for none."""
    file = max(Path(table.path).glob("schema/schema-*"))
    body = json.loads(file.read_text())
    body["options"].pop("file.format", None)
    if name is not None:
        body["options"]["file.format"] = name
    file.write_text(json.dumps(body))
    return wt.Table.open(table.path)


@pytest.mark.parametrize("name", ["orc", "avro"])
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_every_type_is_read_as_pypaimon_reads_it(
    tmp_path: Path,
    pypaimon_rows: Reader,
    pypaimon_write: Callable[[wt.Table, pa.Table], None],
    name: str,
    engine: str,
) -> None:
    types = {key: kind for key, kind in ALL_TYPES.items() if key not in NOT_THERE[name]}
    columns = [KEY, *(pa.field(key, kind) for key, (kind, _) in types.items())]
    table = set_format(create(tmp_path, columns, {"merge-engine": engine}), name)
    for shift in range(3):
        data = {"k": pa.array([1, 2, 3], pa.int32())}
        for key, (kind, values) in types.items():
            data[key] = pa.array(values[shift:] + values[:shift], kind)
        pypaimon_write(table, pa.table(data, schema=pa.schema(columns)))
        table = wt.Table.open(table.path)
        assert ours(table) == pypaimon_rows(table)
    assert {path.suffix for path in Path(table.path).rglob("data-*")} == {f".{name}"}
    before = ours(table)
    with pytest.raises(wt.InvalidError, match=r"file\.format"):
        table.compact(full=True)
    table = set_format(table, None)  # from here on Parquet is written beside
    table.write(pa.table({"k": pa.array([4], pa.int32())}))
    assert ours(table)[:3] == before
    table.compact(full=True)
    assert ours(table)[:3] == before
    assert ours(table) == pypaimon_rows(table)
