"""Writers that were overtaken: pypaimon's native engine, and Paimon's Java, see the order of commits as we do.

Java: `make interop-java`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import widetable as wt
from tests.interop.conftest import NATIVE, PypaimonProcess
from tests.interop.java.java_process import JavaProcess
from tests.interop.java.java_session import NEEDS_JAVA, java_rows, texts_of
from tests.interop.random_histories import has_plain_keys, may_lack_a_value, table_folder
from tests.interop.test_random_tables import is_row_served, is_served
from tests.support.models.overlapping import Overlapping
from tests.support.models.overtaken import SCHEMA, SHAPES, Overtaken, Row
from tests.support.models.plain_rows import python_rows, row_texts
from tests.support.models.random_table import TableSpec, functions_of, make, table_specs

pytestmark = pytest.mark.interop

OVERLAPS = int(os.environ.get("WIDETABLE_INTEROP_OVERLAPS", "20"))
# There a row begins with the values of a retraction that comes first, 5 - 5 (semantics U6); which one comes first is
# what this is about, and that is the same whoever compacted.
BEGINS_WITH_A_RETRACTION = "a sequence group with a sum, a retraction first"
COMPACTED = ["by nobody", "in between", "behind both"]


def played(tmp_path: Path, shape: str, compacted: str) -> tuple[wt.Table, Overtaken]:
    def between(table: wt.Table) -> None:
        if compacted == "in between":
            table.compact(full=True)

    overtaken = Overtaken(SHAPES[shape], wt.Catalog(str(tmp_path)), between, {"write-only": "true"})
    table = overtaken.play()
    # Readers of a first-row table see only what is compacted.
    if compacted == "behind both" or "first-row" in shape:
        table.compact(full=True)
    return table, overtaken


def expected_there(overtaken: Overtaken, shape: str, compacted: str) -> list[Row]:
    """What the other clients give where they merge what nobody has compacted."""
    rows = overtaken.expected()
    if shape == BEGINS_WITH_A_RETRACTION and compacted != "behind both":
        return [row | {"a": 0} for row in rows]
    return rows


@pytest.mark.parametrize("compacted", COMPACTED)
@pytest.mark.parametrize("shape", SHAPES)
def test_pypaimon_reads_the_order_of_commits(
    tmp_path: Path, pypaimon_process: PypaimonProcess, shape: str, compacted: str
) -> None:
    table, overtaken = played(tmp_path, shape, compacted)
    found = pypaimon_process.ask(table, options=NATIVE, exact=True)
    assert found == expected_there(overtaken, shape, compacted)


@NEEDS_JAVA
@pytest.mark.parametrize("compacted", COMPACTED)
@pytest.mark.parametrize("shape", SHAPES)
def test_java_reads_the_order_of_commits(
    tmp_path: Path, java: JavaProcess, shape: str, compacted: str
) -> None:
    table, overtaken = played(tmp_path, shape, compacted)
    assert table.scan().to_arrow().to_pylist() == overtaken.expected()
    expected = texts_of(pa.Table.from_pylist(expected_there(overtaken, shape, compacted), SCHEMA))
    assert java_rows(java, table) == expected


def is_told(spec: TableSpec) -> bool:
    """Tables whose adds it merges as Java does (`History.stays_different`, `may_lack_a_value`), and whose keys its
    Python can hold: it has no day and no time before the year 1.
    """
    functions = functions_of(spec.schema)
    is_first = any(function.startswith("first_") for function in functions)
    has_times = any(pa.types.is_temporal(spec.columns.field(n).type) for n in spec.primary_key)
    if is_first or has_times or may_lack_a_value(spec.schema):
        return False
    return is_served(spec) and has_plain_keys(spec)


@settings(max_examples=OVERLAPS, deadline=None)
@given(data=st.data(), steps=st.integers(3, 8))
def test_pypaimon_reads_what_overlapping_writers_left(
    data: st.DataObject, pypaimon_process: PypaimonProcess, steps: int
) -> None:
    """Of adds: it merges retractions otherwise (test_pypaimon_differs)."""
    spec = data.draw(table_specs().filter(is_told), label="table")
    with table_folder() as folder:
        history = Overlapping(make(str(folder), spec), spec, has_retractions=False)
        history.run(data, steps)
        if not history.commits or not all(is_row_served(spec.schema, r) for r in history.written):
            reject()
        has_vectors = spec.options.get("deletion-vectors.enabled") == "true"
        if has_vectors or spec.options["merge-engine"] == "first-row":
            history.table.compact(full=True)  # clients pass over what lies at level 0 there
        answer = pypaimon_process.ask(history.table, options=NATIVE, exact=True)
        rows = python_rows(history.table.scan().to_arrow())
        assert row_texts(answer) == row_texts(rows)
