"""Overwrites that put files back: at the levels that they have, beside those that stay, and never past a race."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.faults.faults import FaultyFileIO
from tests.widetable.commit.transaction.fake_table import (
    committer,
    compacted,
    data_file,
    live_names,
    make_table,
    written,
)
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, InvalidError
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.storage.local import LocalFileIO
from widetable.write.commit_message import CommitMessage


def live(table: Committer) -> dict[str, ManifestEntry]:
    entries = table.live_files.live_entries(table.snapshots.latest())
    return {entry.file.file_name: entry for entry in entries}


def target(table: Committer) -> Snapshot:
    latest = table.snapshots.latest()
    assert latest is not None
    return latest


def test_all_go_but_what_is_kept_and_put_back(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    table.append([written(data_file("a"), data_file("b"))], Identity.of("job", 4))
    keeps = [live(table)["a"].identity]
    done = table.restore([written(data_file("c", level=5))], keeps, target(table))
    assert (done.committed, done.kind) == (True, "OVERWRITE")
    assert set(live(table)) == {"a", "c"}
    # What is remembered of commit users stays.
    assert not table.append([written(data_file("d"))], Identity.of("job", 4)).committed


def test_without_files_to_keep_only_the_named_ones_go(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    a, b = data_file("a"), data_file("b", level=3, low=20, high=29)
    table.append([written(a)])
    table.compact([compacted([], [b])])
    repaired = data_file("c", level=3, low=22, high=23)
    entry = live(table)["b"]
    table.rewrite(lambda _: [CommitMessage(entry.partition, 0, 4, (repaired,), (b,))])
    assert set(live(table)) == {"a", "c"}


def test_an_overwrite_of_writers_still_takes_no_levels(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    with pytest.raises(InvalidError, match="level above 0"):
        table.overwrite(None, [written(data_file("c", level=5))])


def test_files_that_stay_must_be_there_when_it_commits(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    table, other = committer(paths, storage), committer(paths)
    a = data_file("a")
    table.append([written(a)])
    keeps = [live(table)["a"].identity]

    def compact() -> None:
        other.compact([compacted([a], [data_file("b", level=5)])])

    storage.run_before("publish", compact, "snapshot-2")
    with pytest.raises(ConflictError, match="stay"):
        table.restore([written(data_file("c", level=5, low=20, high=29))], keeps, target(table))
    assert live_names(table) == ["b"]


def test_levels_that_would_overlap_are_a_conflict(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    a = data_file("a", level=5)
    table.compact([compacted([], [a])])
    with pytest.raises(ConflictError, match="overlap"):
        table.restore(
            [written(data_file("c", level=5))], [live(table)["a"].identity], target(table)
        )
