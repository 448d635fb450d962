"""What a task writes, whatever number Spark gives it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import TaskContext

import widetable as wt
from widetable_spark.task_writer import TaskWriter

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
        writer = TaskWriter(table, ("k", "v"), "_row_kind", base, None, False)
        batch = pa.record_batch({"k": [1, 2], "v": [task, task]}, SCHEMA)
        messages += writer.write(iter([batch])).files
    table.commit_append(messages)
    files = [file for split in table.scan().splits() for file in split.files]
    ranges = sorted((file.min_sequence_number, file.max_sequence_number) for file in files)
    assert ranges[0][1] < ranges[1][0], "no number is taken twice"
    assert table.scan().to_arrow()["v"].to_pylist() == [max(number, 5)] * 2
