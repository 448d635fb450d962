"""What pypaimon's native engine says otherwise, a case each: the reasons why random tables leave these out.

A case is the options of a table with a key `k` and columns g, h, v, s INT, its records, a commit each, and both rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.conftest import NATIVE, PypaimonProcess
from tests.interop.random_histories import TheirWrite

pytestmark = pytest.mark.interop

COLUMNS = ("g", "h", "v")
Row = dict[str, Any]


class Case(NamedTuple):
    """Records: kind, g, h, v; the rows likewise, None for no row."""

    options: dict[str, str]
    records: list[tuple[str, int | None, int | None, int | None]]
    ours: tuple[int | None, ...] | None
    theirs: tuple[int | None, ...] | None


CASES = {
    # A retraction sets the sequence, which the engine clears as protected.
    "a group that protects its own sequence": Case(
        {"fields.g.sequence-group": "v,g"},
        [("+I", 1, None, 1), ("-D", 5, None, 1)],
        (5, None, None),
        (None, None, None),
    ),
    # The row that comes back has the removal's sequence where its own is null.
    "a row that follows a removal in the order of its sequence": Case(
        {"sequence.field": "g,h", "partial-update.remove-record-on-delete": "true"},
        [("-D", 1, 7, 1), ("+I", 2, None, 2)],
        (2, None, 2),
        (2, 7, 2),
    ),
    # The same without a removal, where the retraction comes first in the order.
    "a row that a retraction comes before in the order of its sequence": Case(
        {"sequence.field": "g,h", "fields.s.sequence-group": "v"},
        [("+I", 1, None, None), ("-D", None, 7, None)],
        (1, None, None),
        (1, 7, None),
    ),
    # As in Java (decision 0002); here it stays away until the next add.
    "a removed row that is retracted once more": Case(
        {
            "fields.g.sequence-group": "v",
            "partial-update.remove-record-on-sequence-group": "g",
        },
        [("+I", 1, None, 1), ("-D", 2, None, None), ("-D", None, None, None)],
        None,
        (2, None, None),
    ),
    # As in Java: the row that comes back begins with the removal's values of functions (semantics U6).
    "a removed row that comes back, with a function in its group": Case(
        {
            "fields.g.sequence-group": "v",
            "fields.v.aggregate-function": "last_value",
            "partial-update.remove-record-on-sequence-group": "g",
        },
        [("-D", 0, None, 5), ("+I", None, None, 7)],
        (0, None, None),
        (0, None, 5),
    ),
    # As in Java: a row begins with the values of a -U that comes first (semantics U6, decision 0001).
    "a row whose first record is a -U that removes nothing": Case(
        {"partial-update.remove-record-on-delete": "true"},
        [("-U", None, None, 5), ("+I", None, None, None)],
        (None, None, None),
        (None, None, 5),
    ),
    # As in Java before it compacts (semantics 6.4; test_java_faults): a late null is the first value, unless another
    # late record came before it to a null. Here it always is, as Java has it where each record was compacted.
    "the first value of a group after late records": Case(
        {
            "fields.g.sequence-group": "v",
            "fields.v.aggregate-function": "first_non_null_value",
        },
        [("+I", 5, None, None), ("+I", 4, None, 1), ("+I", 3, None, None)],
        (5, None, None),
        (5, None, 1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_both_answers(tmp_path: Path, pypaimon_process: PypaimonProcess, name: str) -> None:
    case = CASES[name]
    key = pa.field("k", pa.int32(), nullable=False)
    schema = pa.schema([key, *((column, pa.int32()) for column in (*COLUMNS, "s"))])
    options = {
        "merge-engine": "partial-update",
        "bucket": "1",
        "write-only": "true",
        "widetable.fsync": "false",
        **case.options,
    }
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", schema, primary_key=["k"], options=options
    )
    for kind, *values in case.records:
        row = {"_row_kind": kind, "k": 1, **dict(zip(COLUMNS, values, strict=True)), "s": None}
        table.write(pa.Table.from_pylist([row], schema.append(pa.field("_row_kind", pa.string()))))
    names = ["k", *COLUMNS]
    assert table.scan(names).to_arrow().to_pylist() == rows_of(case.ours)
    theirs = pypaimon_process.ask(table, options=NATIVE)
    assert [{name: row[name] for name in names} for row in theirs] == rows_of(case.theirs)


@pytest.mark.parametrize("later", [None, ""])
def test_texts_without_characters_alone_in_listagg(
    tmp_path: Path, pypaimon_process: PypaimonProcess, later: str | None
) -> None:
    """They are lost where two records meet, and there where one stands alone; in Java they are there."""
    options = {
        "bucket": "1",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "listagg",
        "write-only": "true",
        "widetable.fsync": "false",
    }
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"k": "INT", "v": "STRING"}, primary_key=["k"], options=options
    )
    for text in ("", later):
        table.write(pa.table({"k": [1], "v": [text]}, table.arrow_schema))
    assert table.scan().to_arrow()["v"].to_pylist() == [""]
    assert pypaimon_process.ask(table, options=NATIVE) == [{"k": 1, "v": None}]
    table.compact(full=True)
    assert pypaimon_process.ask(table, options=NATIVE) == [{"k": 1, "v": ""}]


def test_a_file_with_a_negative_nan_as_key_is_not_sorted(
    tmp_path: Path, pypaimon_native_write: TheirWrite
) -> None:
    """It is the least key there, by its bits; NaN is the greatest in Java (semantics, section 2), and one."""
    schema = pa.schema([pa.field("k", pa.float64(), nullable=False), ("v", pa.int32())])
    options = {"bucket": "1", "write-only": "true", "widetable.fsync": "false"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", schema, primary_key=["k"], options=options
    )
    bits = np.array([0xFFF4000000000001, 0x3FF8000000000000], np.uint64)
    rows = pa.table([pa.array(bits.view(np.float64)), pa.array([1, 2], pa.int32())], schema=schema)
    pypaimon_native_write(table, rows)
    table.write(rows)
    with pytest.raises(wt.DamagedError, match="a key smaller than the one before it"):
        table.compact(full=True)


def rows_of(values: tuple[int | None, ...] | None) -> list[Row]:
    return [] if values is None else [{"k": 1, **dict(zip(COLUMNS, values, strict=True))}]
