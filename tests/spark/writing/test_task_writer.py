"""What a task writes, whatever number Spark gives it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import TaskContext

import widetable as wt
from widetable.connector import WritePlan
from widetable_spark.frames.source_options import parse_options
from widetable_spark.frames.spark_types import spark_schema
from widetable_spark.writing.task_writer import TaskWriter, plan_writer

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


@pytest.mark.parametrize("number", [0, 16_383, 16_384, 1_000_000])
def test_a_partition_may_have_any_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Not by a query of so many tasks, which takes minutes: decision 0004 names a run of one."""
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options={"bucket": "1", "write-only": "true"}
    )
    base = table.sequence_base()
    messages: list[wt.CommitMessage] = []
    for task in (number, 5):
        context = SimpleNamespace(
            partitionId=lambda task=task: task, getLocalProperty=lambda _: None
        )
        monkeypatch.setattr(TaskContext, "get", lambda context=context: context)
        plan = WritePlan(table, ("k", "v"), "_row_kind", False, None, base, table.schema.id)
        writer = TaskWriter(plan, None, False)
        batch = pa.record_batch({"k": [1, 2], "v": [task, task]}, SCHEMA)
        messages += writer.write(iter([batch])).files
    table.commit_append(messages)
    files = [file for split in table.scan().splits() for file in split.files]
    ranges = sorted((file.min_sequence_number, file.max_sequence_number) for file in files)
    assert ranges[0][1] < ranges[1][0], "no number is taken twice"
    assert table.scan().to_arrow()["v"].to_pylist() == [max(number, 5)] * 2


def swap(catalog: wt.Catalog) -> None:
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        catalog.alter_table("db.t", rename_columns={old: new})


def drop_and_add(catalog: wt.Catalog) -> None:
    catalog.alter_table("db.t", drop_columns=["a"])
    catalog.alter_table("db.t", add_columns=[pa.field("a", pa.int64())])


@pytest.mark.parametrize("names", [None, ["a"]], ids=["whole rows", "named columns"])
@pytest.mark.parametrize("change", [swap, drop_and_add])
def test_names_mean_what_they_meant_to_the_planner(
    tmp_path: Path, change: Callable[[wt.Catalog], None], names: list[str] | None
) -> None:
    """The first task writes before the change, the second behind it. Both write the column that had the name."""
    catalog = wt.Catalog(str(tmp_path))
    columns = {"k": "BIGINT", "a": "BIGINT", "b": "BIGINT"}
    options = {"bucket": "1", "merge-engine": "partial-update"}
    table = catalog.create_table("db.t", columns, primary_key=["k"], options=options)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int64())])
    if names is not None:
        schema = schema.append(pa.field("named", pa.list_(pa.string())))
    given = {"path": table.path} | ({} if names is None else {"row-columns": "named"})
    tasks = plan_writer(parse_options(given), spark_schema(schema))

    def written(key: int) -> tuple[wt.CommitMessage, ...]:
        row = {"k": key, "a": 7, "named": names}
        batch = pa.RecordBatch.from_pylist([row], schema)
        return tasks.write(iter([batch])).files

    first = written(1)
    change(catalog)
    catalog.table("db.t").commit_append([*first, *written(2)])
    rows = catalog.table("db.t").scan().to_arrow().to_pylist()
    values = {(row["k"], row["a"], row["b"]) for row in rows}
    b = 7 if change is swap else None
    assert values == {(1, None, b), (2, None, b)}
