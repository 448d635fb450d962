"""A table that another client made with a value that we do not write is refused for writing, not written otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt


@pytest.mark.parametrize(("key", "value"), [("file.format", "orc"), ("file.compression", "lzo")])
def test_writing_is_refused_by_option_and_reading_goes_on(
    tmp_path: Path, key: str, value: str
) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    table = wt.Catalog(str(tmp_path)).create_table("db.t", schema, primary_key=["k"])
    rows = pa.table({"k": [1], "v": [1]})
    table.write(rows)
    file = Path(table.path) / "schema/schema-0"
    body = json.loads(file.read_text())
    body["options"][key] = value
    file.write_text(json.dumps(body))
    table = wt.Table.open(table.path)
    with pytest.raises(wt.InvalidError, match=key) as raised:
        table.write(rows)
    assert value in raised.value.found
    assert table.scan().to_arrow().to_pylist() == rows.to_pylist()
    assert len(table.snapshots()) == 1
