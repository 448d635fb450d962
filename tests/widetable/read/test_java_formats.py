"""Tables of Paimon's Java whose files are ORC and Avro, all types at all levels, against the rows that Java reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

import widetable as wt
from tests.fixture_tables import ROOT
from tests.plain_rows import plain, python_rows

_OTHERS = ROOT / "others.json"
_NAMES = ("types_orc_", "types_avro_", "mixed_formats", "dv_orc", "dv_avro")
_TABLES: list[dict[str, Any]] = [
    table
    for table in (json.loads(_OTHERS.read_text())["tables"] if _OTHERS.exists() else [])
    if table["table"].startswith(_NAMES)
]


def rows(table: wt.Table, snapshot: int | None) -> list[Any]:
    found = [plain(row) for row in python_rows(table.scan(snapshot_id=snapshot).to_arrow())]
    return json.loads(json.dumps(sorted(found, key=json.dumps)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("expected", _TABLES, ids=lambda table: str(table["table"]))
def test_every_snapshot_has_the_rows_that_java_reads(expected: dict[str, Any]) -> None:
    table = wt.Table.open(str(ROOT / "wh_others/others.db" / expected["table"]))
    assert rows(table, None) == expected["rows"]
    by_snapshot = expected["rows_by_snapshot"].items()
    for snapshot, expected_rows in by_snapshot:
        if expected["table"].startswith("dv_") and int(snapshot) % 2:
            continue  # an APPEND, whose level 0 Java does not show in tables with vectors
        assert rows(table, int(snapshot)) == expected_rows
