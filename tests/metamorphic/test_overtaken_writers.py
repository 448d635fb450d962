"""Writers that were overtaken: what a compaction merged meanwhile must not be preferred to what they commit.

The records are ordered by the start of their writers (docs/decisions/0004), whatever was compacted (0002).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt

SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
REMOVES = {"partial-update.remove-record-on-delete": "true"}


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize(
    ("options", "overtaking", "expected"),
    [
        ({"merge-engine": "partial-update"}, {"b": 5}, [{"k": 1, "a": 1, "b": 5}]),
        ({"merge-engine": "partial-update", **REMOVES}, {"_row_kind": "-D"}, []),
        ({"merge-engine": "deduplicate"}, {"_row_kind": "-D"}, []),
    ],
    ids=["own columns", "removed", "deleted"],
)
def test_a_late_commit_comes_where_its_writer_started(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    options: dict[str, str],
    overtaking: dict[str, Any],
    expected: list[dict[str, Any]],
    compacts: bool,
) -> None:
    if compacts:
        reason = "a merged row has one sequence number, and deletes are dropped at the bottom"
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options={**options, "write-only": "true"}
    )
    table.write(pa.Table.from_pylist([{"k": 1, "a": 0}]))
    late = table.new_writer(["k", "a"])
    late.write(pa.Table.from_pylist([{"k": 1, "a": 1}]))
    table.write(pa.Table.from_pylist([{"k": 1, **overtaking}]))
    if compacts:
        table.compact(full=True)
    table.commit_append(late.finish())
    assert table.scan().to_arrow().to_pylist() == expected
