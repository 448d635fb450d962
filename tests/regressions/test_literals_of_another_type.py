"""A literal of another type or precision than the column prunes no bucket and no file that holds rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt

KEYS = [-3, 0, 2, 3, 2**53, 2**53 + 1, 2**63 - 1]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("k = 2.0", [2]),
        ("k = 2.5", []),
        ("k <> 2.5", KEYS),
        ("k < -0.5", [-3]),
        ("k = 9007199254740993.0", [2**53 + 1]),
        ("k > 9007199254740992.5", [2**53 + 1, 2**63 - 1]),
        ("k < 9223372036854775808", KEYS),
        ("k in (2, 2.5, 9223372036854775808)", [2]),
        ("k not in (2, null)", []),
    ],
)
def test_rows_are_those_of_exact_arithmetic(
    tmp_path: Path, condition: str, expected: list[int]
) -> None:
    schema = pa.schema([("k", pa.int64())])
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", schema, primary_key=["k"], options={"bucket": "5"}
    )
    table.write(pa.table({"k": KEYS}))
    table.write(pa.table({"k": KEYS[:2]}))
    merged = table.scan(filter=condition).to_arrow()["k"].to_pylist()
    table.compact(full=True)
    compacted = table.scan(filter=condition).to_arrow()["k"].to_pylist()
    assert sorted(merged) == sorted(compacted) == expected
