"""Which files of a snapshot hold its changes, and which hold the rows that they follow on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from widetable.commit.transaction.committer import Committer
from widetable.format.snapshot import COMMIT_KIND_OVERWRITE
from widetable.read.change_plan import plan_changes, plan_rows
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

JAVA = Path(__file__).resolve().parent.parent.parent / "fixtures/wh_java/fx.db"


def java_table(name: str) -> Committer:
    return Committer(LocalFileIO(fsync=False), TablePaths(str(JAVA / name)))


def changed_files(name: str, snapshot_id: int, producer: str, kind: str | None = None) -> list[str]:
    """The beginnings of their names, and their levels."""
    table = java_table(name)
    snapshot = table.snapshots.load(snapshot_id)
    if kind is not None:
        snapshot = replace(snapshot, commit_kind=kind)
    splits = plan_changes(table.live_files, snapshot, table.schemas.latest(), producer)
    return [file.file_name.split("-")[0] for split in splits for file in split.files]


@pytest.mark.parametrize(
    ("name", "snapshot_id", "producer", "files"),
    [
        ("cl_input", 3, "input", ["changelog"]),
        ("cl_input", 3, "none", ["data"]),
        ("cl_lookup", 3, "lookup", []),
        ("cl_lookup", 4, "lookup", ["changelog"]),
        ("cl_lookup", 3, "none", ["data"]),
        ("cl_lookup", 4, "none", []),
        ("cl_full_compaction", 4, "full-compaction", ["changelog"]),
    ],
)
def test_a_producer_says_where_changes_are(
    name: str, snapshot_id: int, producer: str, files: list[str]
) -> None:
    assert changed_files(name, snapshot_id, producer) == files


@pytest.mark.parametrize("producer", ["none", "input"])
def test_an_overwrite_emits_nothing_even_with_a_changelog(producer: str) -> None:
    assert changed_files("cl_input", 3, producer, COMMIT_KIND_OVERWRITE) == []


@pytest.mark.parametrize(
    ("name", "snapshot_id", "producer", "levels"),
    [
        # Snapshot 3 appended to a bucket whose rows were compacted by snapshot 2.
        ("cl_lookup", 3, "none", {0, 5}),
        ("cl_lookup", 3, "lookup", {5}),
        ("cl_full_compaction", 3, "full-compaction", {5}),
        ("cl_full_compaction", 1, "full-compaction", set()),
        ("cl_input", 3, "input", {0}),
        # Level 5 of snapshot 6 comes from full compactions, level 4 does not.
        ("cl_lookup", 6, "none", {4, 5}),
        ("cl_lookup", 6, "lookup", {4, 5}),
        ("cl_lookup", 6, "full-compaction", {5}),
    ],
)
def test_changes_follow_on_the_rows_that_were_emitted(
    name: str, snapshot_id: int, producer: str, levels: set[int]
) -> None:
    table = java_table(name)
    snapshot = table.snapshots.load(snapshot_id)
    splits = plan_rows(table.live_files, snapshot, table.schemas.latest(), producer)
    assert {file.level for split in splits for file in split.files} == levels
