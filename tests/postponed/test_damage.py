"""Damaged files of rows that wait for a bucket: they are found, their partition waits, and a repair keeps the order.

The order of waiting rows is that of their files. So a repair replaces the files behind the damaged one, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import widetable as wt
from tests.postponed.test_tables import made, rows, waiting
from tests.widetable.operations.health.damaged_table import spoil_group
from widetable.commit.transaction.committer import Committer
from widetable.format import data_file_writer
from widetable.lsm import moved_rows
from widetable.operations.compaction import postponed_rows

GROUP_ROWS: Final = 10


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> wt.Table:
    """Two files wait in each partition; the later one has newer values of some keys."""
    monkeypatch.setattr(data_file_writer, "ROW_GROUP_ROWS", GROUP_ROWS)
    table = made(tmp_path, {"postpone.default-bucket-num": "2"})
    table.write(rows(80, "old"))
    table.write(rows(20, "new"))
    return table


def first_file(table: wt.Table, partition: int = 0) -> Path:
    entries = table._committer.live_files.live_entries(table._committer.snapshots.latest())
    names = [entry.file.file_name for entry in entries]
    folder = Path(table.path, f"p={partition}", "bucket-postpone")
    return folder / next(name for name in names if (folder / name).exists())


def values(table: wt.Table) -> dict[int, str]:
    return {row["k"]: row["v"] for row in table.scan(["k", "v"]).to_arrow().to_pylist()}


def lose(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def spoil(path: Path) -> None:
    spoil_group(path, 2)


@pytest.mark.parametrize("damage", [lose, cut, spoil])
def test_a_damaged_file_keeps_its_partition_waiting(table: wt.Table, damage: object) -> None:
    assert callable(damage)
    path = first_file(table)
    whole = path.read_bytes()
    damage(path)
    for _ in range(2):
        with pytest.raises(wt.DamagedError, match=path.name):
            table.compact()
        assert (waiting(table), set(values(table))) == (50, set(range(1, 80, 2)))
    for report in (table.doctor(deep=True), table.doctor(deep=False)):
        assert [finding.subject for finding in report.findings] == [str(path)]
    assert {finding.file for finding in table.audit().findings} == {path.name}
    with pytest.raises(wt.DamagedError, match=path.name):
        table.delete("k = 1")
    path.write_bytes(whole)
    table.compact()
    assert waiting(table) == 0
    assert values(table) == {k: "new" if k < 20 else "old" for k in range(80)}
    assert table.audit().findings == ()


def test_a_repair_keeps_what_can_be_read_in_its_place(table: wt.Table) -> None:
    path = first_file(table)
    spoil(path)
    planned = table.repair(dry_run=True)
    done = table.repair()
    assert (planned.files, planned.snapshot_id) == (done.files, None)
    [file] = done.files
    assert file.damage.path == str(path)
    assert (file.kept_rows, file.lost_rows) == (30, GROUP_ROWS)
    [lost] = file.lost
    gone = set(range(lost.first_key["k"], lost.last_key["k"] + 1, 2))
    assert len(gone) == GROUP_ROWS
    table.compact()
    expected = {
        k: "new" if k < 20 else "old" for k in range(80) if (k >= 20 and k not in gone) or k < 20
    }
    assert values(table) == expected
    assert table.doctor(deep=True).ok


def test_a_repair_begins_anew_when_more_rows_wait(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files would come behind them."""
    spoil(first_file(table))
    rewrite, tries = Committer.rewrite, []

    def late(*given: object) -> wt.CommitResult:
        tries.append(given)
        if len(tries) == 1:
            table.write(rows(20, "newest"))
        return rewrite(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(Committer, "rewrite", late)
    table.repair()
    assert len(tries) == 2
    table.compact()
    assert {k: v for k, v in values(table).items() if k < 20} == dict.fromkeys(range(20), "newest")


def test_a_damaged_partition_is_not_read_in_each_round(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(first_file(table))
    placed, reads = moved_rows.placed_at_last, []

    def counted(*given: object) -> object:
        reads.append(given)
        return placed(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(postponed_rows, "placed_at_last", counted)
    for _ in range(3):
        with pytest.raises(wt.DamagedError):
            table.compact()
    assert len(reads) == 2
