"""With producer `input` and a `sequence.field`, the order of a key's records depended on when a writer's memory was
full and on the tasks of a commit.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt

SEQUENCES = [3, 1, 2, 5, 4, None, 1]
IN_ORDER = [None, 1, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("columns", [None, ["k", "n"]])
@pytest.mark.parametrize("producer", ["input", "none"])
@pytest.mark.parametrize(("buffer", "tasks"), [("256 mb", 1), ("1 kb", 1), ("256 mb", 3)])
def test_records_of_a_key_come_by_sequence_field(
    tmp_path: Path, buffer: str, tasks: int, producer: str, columns: list[str] | None
) -> None:
    """Without a producer a commit emits one record per key and task."""
    schema = pa.schema([("k", pa.int64()), ("s", pa.int64()), ("n", pa.int64())])
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        pa.schema([*schema, ("pad", pa.binary())]),
        primary_key=["k"],
        options={
            "changelog-producer": producer,
            "sequence.field": "s",
            "write-buffer-size": buffer,
            "write-only": "true",
        },
    )
    rows = [
        {"k": k, "s": s, "n": n, "pad": b"0" * 600} for n, s in enumerate(SEQUENCES) for k in (2, 1)
    ]
    base = table.sequence_base()
    messages = []
    for task in range(tasks):
        writer = table.new_writer(table.schema.names, task=task, tasks=tasks, sequence_base=base)
        share = rows[task * len(rows) // tasks : (task + 1) * len(rows) // tasks]
        for row in share:
            writer.write(pa.Table.from_pylist([row], schema=table.arrow_schema))
        messages += writer.finish()
    table.commit_append(messages)
    emitted = table.changes(0, 1, columns=columns).to_pylist()
    by_arrival = {n: s for n, s in enumerate(SEQUENCES)}
    found = [[by_arrival[row["n"]] for row in emitted if row["k"] == k] for k in (1, 2)]
    if producer == "input":
        assert found == [IN_ORDER, IN_ORDER]
        # Arrival decides between equal ones.
        assert [row["n"] for row in emitted if row["k"] == 1 and by_arrival[row["n"]] == 1] == [
            1,
            6,
        ]
    else:
        assert all(each == sorted(each, key=IN_ORDER.index) for each in found)
