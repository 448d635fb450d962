"""Partitions get the rows of an older snapshot; what was committed to others stays."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.programs.command_line import run
from widetable.operations.health import restored_files

FIRST, SECOND = date(2026, 11, 26), date(2026, 11, 27)
Row = tuple[int, date, int]


def create(folder: Path, **options: str) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        {"k": "INT", "day": "DATE", "v": "INT"},
        primary_key=["k", "day"],
        partition_by=["day"],
        options={"bucket": "1", "widetable.fsync": "false", **options},
    )


def put(table: wt.Table, *rows: Row) -> None:
    keys, days, values = zip(*rows, strict=True)
    table.write({"k": list(keys), "day": list(days), "v": list(values)})


def rows_of(table: wt.Table) -> list[Row]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


@pytest.fixture(params=["plain", "vectors", "changelog"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> wt.Table:
    """Snapshots up to the tag `good`; then a wrong batch in the first day, and a right one in the second."""
    options = {
        "plain": {},
        "vectors": {"deletion-vectors.enabled": "true"},
        "changelog": {"changelog-producer": "lookup"},
    }
    made = create(tmp_path, **options[request.param])
    put(made, (1, FIRST, 1), (2, FIRST, 2), (1, SECOND, 1))
    made.compact(full=True)
    made.create_tag("good")
    put(made, (1, FIRST, -1), (3, FIRST, -1), (2, SECOND, 2))
    return made


EXPECTED = [(1, FIRST, 1), (1, SECOND, 1), (2, FIRST, 2), (2, SECOND, 2)]


@pytest.mark.parametrize("then", ["as it is", "compacted", "dropped"])
def test_one_partition_comes_back_and_the_others_stay(table: wt.Table, then: str) -> None:
    if then == "compacted":
        table.compact(full=True)
    if then == "dropped":
        table.drop_partitions({"day": [FIRST]})
    before = rows_of(table)
    would = table.restore_partitions({"day": [FIRST]}, tag="good", dry_run=True)
    assert would.snapshot_id is None
    assert rows_of(table) == before
    done = table.restore_partitions({"day": [FIRST]}, tag="good")
    assert done.partitions == ("day=2026-11-26",)
    assert done.snapshot_id == table.snapshots()[-1].id
    assert rows_of(table) == EXPECTED
    again = table.restore_partitions({"day": [FIRST]}, tag="good")
    assert rows_of(table) == EXPECTED
    put(table, (1, FIRST, 5))
    table.compact(full=True)
    assert rows_of(table) == [(1, FIRST, 5), *EXPECTED[1:]]
    assert table.audit().ok, again


@pytest.mark.parametrize("meanwhile", ["written", "compacted", "deleted"])
def test_what_comes_before_the_commit_goes_as_well(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """As a rollback does: what was committed later is later."""
    other, real = wt.Table.open(table.path), restored_files.linked
    done: list[int] = []

    def linked(*given: Any) -> Any:
        made = real(*given)
        if not done:
            done.append(1)
            if meanwhile == "deleted":
                other.delete_keys({"k": [2], "day": [FIRST]})
            else:
                put(other, (2, FIRST, -2), (4, FIRST, -2), (2, SECOND, 2))
            if meanwhile == "compacted":
                other.compact(full=True)
        return made

    monkeypatch.setattr(restored_files, "linked", linked)
    result = table.restore_partitions({"day": [FIRST]}, tag="good")
    assert rows_of(table) == EXPECTED
    assert result.snapshot_id == table.snapshots()[-1].id
    assert table.audit().ok
    assert table.remove_orphan_files(older_than_millis=0, dry_run=True).paths == ()


def test_keys_of_a_dynamic_bucket_are_found_again(tmp_path: Path) -> None:
    table = create(tmp_path, bucket="-1", **{"dynamic-bucket.target-row-num": "3"})
    rows = [(key, FIRST, key) for key in range(10)]
    put(table, *rows)
    table.create_tag("good")
    table.drop_partitions({"day": [FIRST]})
    table.restore_partitions({"day": [FIRST]}, tag="good")
    assert rows_of(table) == rows
    put(table, *((key, day, -value) for key, day, value in rows))
    assert rows_of(table) == [(key, day, -value) for key, day, value in rows]
    assert table.audit().ok


def test_a_branch_has_its_own_back(table: wt.Table) -> None:
    table.create_branch("b", tag="good")
    branch = wt.Table.open(table.path, branch="b")
    before = rows_of(table)
    first = branch.snapshots()[-1].id
    put(branch, (1, FIRST, 9))
    branch.restore_partitions({"day": [FIRST]}, first)
    assert rows_of(branch) == [(1, FIRST, 1), (1, SECOND, 1), (2, FIRST, 2)]
    assert rows_of(table) == before


def test_it_comes_back_after_its_files_have_expired_elsewhere(table: wt.Table) -> None:
    table.drop_partitions({"day": [FIRST]})
    table.compact(full=True)
    table.restore_partitions({"day": [FIRST]}, tag="good")
    table.expire_snapshots(num_retained_min=1, num_retained_max=1)
    table.delete_tag("good")
    assert rows_of(wt.Table.open(table.path)) == EXPECTED


def test_a_partition_that_the_snapshot_lacks_is_empty_afterwards(table: wt.Table) -> None:
    third = date(2026, 11, 28)
    put(table, (9, third, 9))
    table.restore_partitions({"day": [third]}, tag="good")
    assert third not in {row[1] for row in rows_of(table)}


def test_what_is_refused(table: wt.Table, tmp_path: Path) -> None:
    with pytest.raises(wt.InvalidError, match="none of them"):
        table.restore_partitions({"day": [FIRST]})
    with pytest.raises(wt.InvalidError, match="more than one"):
        table.restore_partitions({"day": [FIRST]}, 1, tag="good")
    with pytest.raises(wt.NotFoundError, match="good"):
        table.restore_partitions({"day": [FIRST]}, tag="bad")
    flat = wt.Catalog(str(tmp_path)).create_table("db.flat", {"k": "INT"}, primary_key=["k"])
    flat.write({"k": [1]})
    with pytest.raises(wt.InvalidError, match="rollback"):
        flat.restore_partitions({"day": [FIRST]}, 1)


def test_on_the_command_line(table: wt.Table) -> None:
    """Days are days wherever a partition is shown."""
    words = ("--partition", "day=2026-11-26")
    assert run("partition", "list", table.path).stdout.split("  ")[0] == "day=2026-11-26"
    assert table.inspect.partitions()["partition"].to_pylist() == [
        "day=2026-11-26",
        "day=2026-11-27",
    ]
    would = run("partition", "drop", table.path, *words, "--dry-run").stdout
    assert would == "partition day=2026-11-26 would be dropped\n"
    assert "dropped, snapshot" in run("partition", "drop", table.path, *words).stdout
    assert FIRST not in {row[1] for row in rows_of(table)}
    for dry in (("--dry-run",), ()):
        said = run("partition", "restore", table.path, *words, "--tag", "good", *dry).stdout
        assert said.startswith("day=2026-11-26: 1 file with 2 rows")
    assert rows_of(table) == EXPECTED
    for wrong in (
        ("list", table.path, *words),
        ("drop", table.path),
        ("drop", table.path, *words, "--tag", "good"),
        ("restore", table.path, *words),
        ("restore", table.path, "--partition", "k=1", "--tag", "good"),
    ):
        assert run("partition", *wrong).exit_code == 2, wrong
