"""What pypaimon's native engine says otherwise, a case each: the reasons why random tables leave these out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.conftest import NATIVE, PypaimonProcess
from tests.interop.differing_cases import CASES, chosen, rows_of, table_of, without_a_value
from tests.interop.random_histories import TheirWrite

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("name", CASES)
def test_both_answers(tmp_path: Path, pypaimon_process: PypaimonProcess, name: str) -> None:
    case = CASES[name]
    table = table_of(tmp_path, case)
    assert chosen(table.scan().to_arrow().to_pylist()) == rows_of(case.ours)
    assert chosen(pypaimon_process.ask(table, options=NATIVE)) == rows_of(case.theirs)


def test_a_not_null_column_that_a_retraction_clears(
    tmp_path: Path, pypaimon_process: PypaimonProcess
) -> None:
    """The last record's value here, an error there and in Java (docs/differences-from-paimon.md)."""
    table = without_a_value(tmp_path)
    assert table.scan().to_arrow()["needed"].to_pylist() == [7]
    with pytest.raises(AssertionError, match="produced NULL for non-nullable field 'needed'"):
        pypaimon_process.ask(table, options=NATIVE)


def test_deletion_vectors_of_rows_that_are_merged_are_left_to_its_python(
    tmp_path: Path, pypaimon_native_write: TheirWrite
) -> None:
    """Which refuses what the native engine merges: removals."""
    options = {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
        "widetable.fsync": "false",
    }

    def written(folder: Path, vectors: str) -> wt.Table:
        table = wt.Catalog(str(folder)).create_table(
            "db.t",
            pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int32())]),
            primary_key=["k"],
            options={**options, "bucket": "1", "deletion-vectors.enabled": vectors},
        )
        pypaimon_native_write(table, pa.table({"k": [1], "v": [2]}, table.arrow_schema))
        return table

    rows = written(tmp_path / "without", "false").scan().to_arrow().to_pylist()
    assert rows == [{"k": 1, "v": 2}]
    with pytest.raises(AssertionError, match="NotImplementedError: merge-engine 'partial-update'"):
        written(tmp_path / "with", "true")


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
