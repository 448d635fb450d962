"""A damaged table that a rollback brings back whole: doctor and repair name the snapshot where nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import widetable as wt
from tests.widetable.operations.health.damaged_table import (
    create,
    damage_group,
    live,
    path_of,
    rows,
    values,
)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> wt.Table:
    """Two appends, and a compaction of them, whose first file is damaged."""
    made = create(tmp_path, monkeypatch)
    made.write(rows("a"))
    made.write(rows("b", range(50)))
    made.compact(full=True)
    damage_group(path_of(made, live(made)[0]), 0)
    return made


def named(table: wt.Table) -> int | None:
    """By repair; doctor agrees."""
    found = table.repair(dry_run=True).whole_snapshot_id
    (finding,) = table.doctor(deep=True).findings
    words = (
        ["repair", table.path]
        if found is None
        else ["rollback", table.path, "--snapshot", str(found)]
    )
    assert finding.command.split() == ["widetable", *words]
    assert ("nothing is lost" in finding.action) is (found is not None)
    return found


def test_the_inputs_of_a_damaged_compaction_are_named(table: wt.Table) -> None:
    assert named(table) == 2
    table.rollback(2)
    assert values(table) == {k: f"{'b' if k < 50 else 'a'}{k}" for k in range(100)}
    assert table.doctor(deep=True).ok


def test_none_where_somebody_wrote_since(table: wt.Table) -> None:
    table.write(rows("c", range(3)))
    assert named(table) is None


@pytest.mark.parametrize("harm", ["missing", "torn", "a wrong bit"])
def test_none_where_the_inputs_are_damaged_too(table: wt.Table, harm: str) -> None:
    entries = table._committer.live_files.live_entries(table._committer.snapshots.load(2))
    path = path_of(table, entries[0])
    if harm == "missing":
        path.unlink()
    elif harm == "torn":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        damage_group(path, 0)
    assert named(table) is None


def test_none_where_the_inputs_have_expired(table: wt.Table) -> None:
    table.expire_snapshots(num_retained_min=1, num_retained_max=1)
    assert named(table) is None


def test_none_where_a_compaction_only_moved_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path, monkeypatch)
    table.write(rows("a"))
    table.compact(full=True)
    assert len(table.snapshots()) == 2
    damage_group(path_of(table, live(table)[0]), 0)
    assert named(table) is None


def test_none_where_a_rescaling_came_between(table: wt.Table) -> None:
    other = wt.Table.open(table.path)
    other.rollback(2)
    other.rescale(3)
    damage_group(Path(other.inspect.files()["path"][0].as_py()), 0)
    assert named(other) is None


def test_a_read_of_a_damaged_changelog_file_is_not_sent_to_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"changelog-producer": "lookup", "write-only": "false"}
    table = create(tmp_path, monkeypatch, **options)
    table.write(rows("a"))
    for path in Path(table.path).rglob("bucket-*/changelog-*"):
        path.write_bytes(b"")
    with pytest.raises(wt.DamagedError, match="latest-full") as raised:
        table.changes(0, table.snapshots()[-1].id)
    assert "repair" not in str(raised.value)
    assert not any("repair" in str(finding) for finding in table.audit().findings)
    assert table.repair(dry_run=True).files == ()
