"""A write-only table whose changelog nobody makes says so: in an inspection, and in the log."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.counting_file_io import CountingFileIO
from widetable.commit.snapshots.committed import COMMIT_USERS, UNCOMPACTED
from widetable.commit.snapshots.uncompacted import (
    Uncompacted,
    next_uncompacted,
    uncompacted,
    uncompacted_behind,
)
from widetable.format.snapshot import Snapshot
from widetable.operations.compaction.unattended import Waiting, unattended_warning
from widetable.operations.handle.held_lease import held_lease
from widetable.schema.options import TableOptions

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
LOOKUP = {"changelog-producer": "lookup", "write-only": "true"}


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": [f"v{k}" for k in keys]}, SCHEMA)


def snapshot(properties: dict[str, str]) -> Snapshot:
    return Snapshot(
        id=1,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user="u",
        commit_identifier=1,
        commit_kind="APPEND",
        time_millis=60,
        total_record_count=1,
        delta_record_count=1,
        properties=properties,
    )


def make(folder: Path, **options: str) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options={"widetable.fsync": "false", **options}
    )


@pytest.mark.parametrize(
    ("waiting", "is_leased", "is_reported"),
    [
        (Waiting(0, 9), False, False),
        (Waiting(5, 3), True, False),
        (Waiting(5, 2), False, False),
        (Waiting(5, 3), False, True),
        (Waiting(5, 1, oldest_age_millis=59_999), False, False),
        (Waiting(5, 1, oldest_age_millis=60_000), False, True),
    ],
)
def test_a_maintainer_gets_a_little_time(
    waiting: Waiting, is_leased: bool, is_reported: bool
) -> None:
    warning = unattended_warning("/t", TableOptions(LOOKUP), waiting, is_leased=is_leased)
    assert (warning is not None) is is_reported
    if warning is not None:
        assert "changelog-producer=lookup and 5 level-0 files" in warning
        assert "widetable maintain /t" in warning


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"write-only": "true"},
        {"write-only": "true", "changelog-producer": "input"},
    ],
)
def test_other_tables_need_nobody(options: dict[str, str]) -> None:
    waiting = Waiting(99, 99)
    assert unattended_warning("/t", TableOptions(options), waiting, is_leased=False) is None


def test_an_append_says_that_nobody_compacts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, **LOOKUP)
    with caplog.at_level(logging.WARNING, "widetable"):
        table.write(rows(1))
        table.write(rows(2))
        assert caplog.records == []
        assert table.inspect().warnings == ()
        table.write(rows(3))
        table.write(rows(4))
    (reported,) = caplog.records
    assert "widetable maintain" in reported.getMessage()
    (warning,) = table.inspect().warnings
    assert "4 level-0 files that no one compacts: run widetable maintain" in warning


def test_rows_that_wait_for_a_bucket_need_a_maintainer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, bucket="-2")
    with caplog.at_level(logging.WARNING, "widetable"):
        table.write(rows(1))
        table.write(rows(2))
        assert caplog.records == []
        table.write(rows(3))
    (reported,) = caplog.records
    expected = "table with postponed buckets and 3 files of waiting rows that no one compacts: run"
    assert expected in reported.getMessage()
    assert expected in table.inspect().warnings[0]
    table.compact()
    assert table.inspect().warnings == ()


def test_an_append_says_nothing_while_somebody_compacts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, **LOOKUP)
    with held_lease(table._state(table.schema)), caplog.at_level(logging.WARNING, "widetable"):
        table.write(rows(1))
        assert table.inspect().warnings == ()
    assert caplog.records == []


def test_barriers_without_rows_are_no_files_that_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, **LOOKUP, **{"widetable.barrier-interval": "1 s"})
    writer = wt.Catalog(tmp_path).writer("db.t", "w")
    with caplog.at_level(logging.WARNING, "widetable"):
        for second in (1, 2, 3):
            writer.complete(1_000 * second)
        assert caplog.records == []
        for second in (4, 5, 6):
            writer.write(rows(1), barrier=1_000 * second, complete=True)
    (reported,) = caplog.records
    assert " 3 level-0 files that no one compacts" in reported.getMessage()
    assert " 3 level-0 files" in table.inspect().warnings[0]


def test_a_table_that_is_compacted_now_and_then_warns_of_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By a timer, or another client: nobody has the lease in between."""
    table = make(tmp_path, **LOOKUP)
    with caplog.at_level(logging.WARNING, "widetable"):
        for key in range(8):
            table.write(rows(key))
            if key % 2:
                table.compact()
    assert caplog.records == []


def test_commits_of_many_writers_are_counted_together(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, **LOOKUP)
    with caplog.at_level(logging.WARNING, "widetable"):
        for key in range(3):
            wt.Table.open(f"{tmp_path}/db.db/t").write(rows(key))
    (reported,) = caplog.records
    assert " 3 level-0 files" in reported.getMessage()


def test_one_commit_that_waits_for_long_is_said_by_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, **LOOKUP)
    table.write(rows(1))
    (path,) = Path(table.path, "snapshot").glob("snapshot-*")
    body = json.loads(path.read_text())
    body["timeMillis"] -= 61_000
    body["properties"]["widetable.uncompacted"] = f"1 {body['timeMillis']}"
    path.write_text(json.dumps(body))
    with caplog.at_level(logging.WARNING, "widetable"):
        wt.Table.open(table.path).write(rows(2))
    (reported,) = caplog.records
    assert " 2 level-0 files" in reported.getMessage()


def test_an_append_reads_no_more_than_one_without_a_changelog(tmp_path: Path) -> None:
    """But the lease, once, where there is a backlog."""
    reads: dict[str, list[int]] = {}
    for name, options in {"plain": {"write-only": "true"}, "lookup": LOOKUP}.items():
        make(tmp_path / name, **options)
        counted = CountingFileIO()
        table = wt.Catalog(tmp_path / name, file_io=counted).table("db.t")
        reads[name] = []
        for key in range(5):
            counted.read_files.clear()
            table.write(rows(key))
            reads[name].append(len(counted.read_files))
    more = [a - b for a, b in zip(reads["lookup"], reads["plain"], strict=True)]
    assert more[:2] + more[3:] == [0, 0, 0, 0]
    assert more[2] <= 1


@pytest.mark.parametrize(
    ("previous", "kind", "has_rows", "noted"),
    [
        (None, "APPEND", True, "1 70"),
        (None, "APPEND", False, None),
        ("2 60", "APPEND", True, "3 60"),
        ("2 60", "APPEND", False, "2 60"),
        ("2 60", "OVERWRITE", True, "3 60"),
        ("2 60", "COMPACT", True, None),
        ("two", "APPEND", True, "1 70"),
        ("-2 60", "APPEND", True, "1 70"),
        ("", "APPEND", False, None),
    ],
)
def test_what_waits_is_carried_from_snapshot_to_snapshot(
    previous: str | None, kind: str, has_rows: bool, noted: str | None
) -> None:
    before = None if previous is None else uncompacted(snapshot({UNCOMPACTED: previous}))
    found = next_uncompacted(before, kind, 70, has_rows=has_rows)
    assert found == ({} if noted is None else {UNCOMPACTED: noted})


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        (["APPEND"], (5, 60)),
        (["APPEND", "APPEND", "OVERWRITE"], (7, 60)),
        (["no rows"], (4, 60)),
        (["COMPACT"], None),
        (["APPEND", "COMPACT", "APPEND", "APPEND"], (2, 103)),
        ([], (4, 60)),
    ],
)
def test_commits_of_another_client_are_counted_by_their_kinds(
    kinds: list[str], found: tuple[int, int] | None
) -> None:
    """They come at 101, 102, .. behind one of ours, after which 4 wait since 60."""
    ours = snapshot({UNCOMPACTED: "4 60", COMMIT_USERS: "{}"})
    history = {1: ours}
    for id, kind in enumerate(kinds, 2):
        commits, kind_of = (0, "APPEND") if kind == "no rows" else (1, kind)
        history[id] = replace(
            ours,
            id=id,
            commit_kind=kind_of,
            time_millis=99 + id,
            delta_record_count=commits,
            properties={},
        )
    expected = None if found is None else Uncompacted(*found)
    assert uncompacted_behind(history[max(history)], history.__getitem__) == expected


def test_a_writer_beside_another_client_says_that_nobody_compacts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every second commit is the other's, which carries no notes on."""
    table = make(tmp_path, **LOOKUP)
    for key in (1, 2):
        table.write(rows(key))
    newest = Path(table.path, "snapshot/snapshot-2")
    body = json.loads(newest.read_text())
    body["properties"] = {}
    newest.write_text(json.dumps(body))
    with caplog.at_level(logging.WARNING, "widetable"):
        wt.Table.open(table.path).write(rows(3))
    assert " 3 level-0 files" in caplog.text
