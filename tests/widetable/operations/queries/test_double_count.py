"""A query that is new to a table which adds up what it writes is said to be: its checkpoint may have been lost."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.merge.aggregate_functions import AGGREGATES
from widetable.operations.barriers.job_writer import JobBatch, JobWriter
from widetable.operations.queries.double_count import columns_that_count, warn_of_new_query
from widetable.operations.writes.table_write import new_writer

SUMS = {"merge-engine": "aggregation", "fields.s.aggregate-function": "sum"}


def make(folder: Path, options: Mapping[str, str], s: str = "BIGINT") -> wt.Table:
    columns = {"k": "BIGINT", "s": s, "v": "BIGINT"}
    given = {"bucket": "1", "widetable.fsync": "false", **options}
    return wt.Catalog(folder).create_table("d.t", columns, primary_key=["k"], options=given)


def codes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.code for record in caplog.records if hasattr(record, "code")]


def test_a_new_query_where_another_has_added_is_said_once_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, SUMS)
    with caplog.at_level(logging.WARNING, "widetable"):
        warn_of_new_query(table, "first", ["k", "s"])
        assert codes(caplog) == []
        table.write({"k": [1], "s": [5]}, "first", 0)
        warn_of_new_query(table, "first", ["k", "s"])
        warn_of_new_query(table, "second", ["k", "v"])
        assert codes(caplog) == []
        warn_of_new_query(table, "second", ["k", "s"])
    assert codes(caplog) == ["WT-W607"]
    assert f"{table.path}: the query second is new to the table, and column 's'" in caplog.text
    assert "has records of first" in caplog.text


def test_another_that_wrote_other_columns_is_no_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, SUMS)
    table.write({"k": [1], "v": [5]}, "first", 0)
    with caplog.at_level(logging.WARNING, "widetable"):
        warn_of_new_query(table, "second", ["k", "s"])
    assert codes(caplog) == []


COUNTS: dict[tuple[str, str, str], bool] = {
    ("sum", "BIGINT", ""): True,
    ("product", "BIGINT", ""): True,
    ("collect", "ARRAY<INT>", ""): True,
    ("collect", "ARRAY<INT>", "distinct=true"): False,
    ("listagg", "STRING", ""): True,
    ("listagg", "STRING", "distinct=true"): False,
    ("nested_update", "ARRAY<ROW<a INT, b INT>>", ""): True,
    ("nested_update", "ARRAY<ROW<a INT, b INT>>", "nested-key=a"): False,
    ("nested_partial_update", "ARRAY<ROW<a INT, b INT>>", "nested-key=a"): False,
    ("merge_map", "MAP<INT, INT>", ""): False,
    ("merge_map_with_keytime", "MAP<INT, ROW<a INT, t STRING>>", ""): False,
    ("max", "BIGINT", ""): False,
    ("min", "BIGINT", ""): False,
    ("bool_and", "BOOLEAN", ""): False,
    ("bool_or", "BOOLEAN", ""): False,
    ("last_value", "BIGINT", ""): False,
    ("last_non_null_value", "BIGINT", ""): False,
    ("first_value", "BIGINT", ""): False,
    ("first_non_null_value", "BIGINT", ""): False,
    ("first_not_null_value", "BIGINT", ""): False,
}


def test_each_function_says_whether_a_record_counts_again() -> None:
    assert {function for function, _, _ in COUNTS} == AGGREGATES.keys()


@pytest.mark.parametrize("case", COUNTS, ids=lambda case: "-".join(filter(None, case)))
def test_a_function_counts_a_record_again_or_not(
    tmp_path: Path, case: tuple[str, str, str]
) -> None:
    function, kind, more = case
    options = {"merge-engine": "aggregation", "fields.s.aggregate-function": function}
    if more:
        key, _, value = more.partition("=")
        options[f"fields.s.{key}"] = value
    schema = make(tmp_path, options, kind).schema
    assert columns_that_count(schema) == (("s",) if COUNTS[case] else ())


def test_rows_that_replace_each_other_count_once(tmp_path: Path) -> None:
    assert columns_that_count(make(tmp_path, {}).schema) == ()


def test_a_root_job_that_takes_over_from_another_query_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its source is outside, so nobody knows what the query before it had read."""
    table = make(tmp_path, {**SUMS, "widetable.barrier-interval": "10 ms"})

    def batch(run: str, number: int) -> None:
        job = JobWriter(table, "clicks", run, ["s"])
        with new_writer(table, ["k", "s"], named=True) as writer:
            writer.write(pa.table({"k": [1], "s": [5]}))
            job.commit(writer.finish(), JobBatch(number, 0, f"{run}{number}"))

    with caplog.at_level(logging.WARNING, "widetable"):
        batch("first", 0)
        batch("first", 1)
        assert codes(caplog) == []
        batch("second", 0)
    assert codes(caplog) == ["WT-W607"]
    assert table.lookup([1])["s"].to_pylist() == [15]
