"""Checkpoints of running queries that the version before the protocols has written: the bytes stay, and are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

import widetable as wt
from widetable.connector import Limits, change_stream, start_of
from widetable.connector.barrier_streams import BARRIER_OFFSET_VERSION, BarrierPosition, Rounds
from widetable.operations.barriers.aligned_source import AlignedSource
from widetable.read.stream_plan import offset_from_json

# As Spark kept them in `offsets/<batch>`, with another table's identity in place of TABLE.
STREAM = [
    '{"version": 1, "next_snapshot": 3, "is_full": true, "position": 2}',
    '{"version": 2, "next_snapshot": 3, "is_full": false, "position": 0, "table": "TABLE"}',
    '{"version": 2, "next_snapshot": 9, "is_full": true, "position": 0, "table": "TABLE", "awaited": true}',
    '{"version": 3, "next_snapshot": 3, "is_full": false, "position": 1, "watermark": 7, "table": "TABLE", '
    '"last_read": "a", "partly_read": "b"}',
]
BARRIER = '{"version": 3, "barrier": 20, "revision": 0, "table": "TABLE"}'


@pytest.mark.parametrize("text", STREAM)
def test_an_offset_of_a_stream_is_written_as_it_was(text: str) -> None:
    assert json.dumps(offset_from_json(json.loads(text)).to_json()) == text


def test_a_stream_goes_on_from_offsets_of_versions_1_and_2(tmp_path: Path) -> None:
    columns = {"k": "BIGINT", "a": "BIGINT"}
    table = wt.Catalog(tmp_path).create_table(
        "db.t", columns, primary_key=["k"], options={"bucket": "1", "write-only": "true"}
    )
    for number in range(4):
        table.write([{"k": number, "a": number}])
    start = start_of("default", None, None)
    identity = change_stream(table, ["k", "a"], start).initial()["table"]
    for text in STREAM[:2]:
        offset = json.loads(text.replace("TABLE", identity))
        offset = {**offset, "is_full": False, "position": 0}
        stream = change_stream(table, ["k", "a"], start)
        end = stream.next_end(offset, Limits())
        reads = [read for task in stream.tasks(offset, end) for read in task]
        keys = [k for read in reads for each in read.to_batches() for k in each["k"].to_pylist()]
        assert (keys, end["next_snapshot"]) == ([2, 3], 5)
        stream.close()


class Source:
    """What a source of a job says of itself."""

    job, identity, revision = "job", "TABLE", 0


def test_an_offset_of_a_job_is_written_and_read_as_it_was() -> None:
    position = BarrierPosition(cast("AlignedSource", Source()), cast("Rounds", None))
    assert json.dumps(position._offset(20)) == BARRIER
    assert position._barrier(json.loads(BARRIER)) == 20
    assert BARRIER_OFFSET_VERSION == 3
