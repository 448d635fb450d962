"""Deletes from tables whose buckets are postponed: they see the rows of all commits before them, also those that wait.

The -D of a row waits for the next compaction, as the row did.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import widetable as wt
from tests.postponed.test_tables import made, rows, waiting
from widetable.operations.writes import delete as deletes

ORDERED: Final = {"merge-engine": "deduplicate", "sequence.field": "s"}
WAYS: Final[dict[str, Callable[[wt.Table], wt.CommitResult]]] = {
    "condition": lambda table: table.delete("k = 1"),
    "keys": lambda table: table.delete_keys([{"p": 1, "k": 1}]),
    "condition, rewritten": lambda table: table.delete("k = 1", rewrite=True),
    "keys, rewritten": lambda table: table.delete_keys([{"p": 1, "k": 1}], rewrite=True),
}


def keys(table: wt.Table) -> list[int]:
    return sorted(table.scan(["k"]).to_arrow()["k"].to_pylist())


@pytest.mark.parametrize("way", WAYS)
def test_a_delete_takes_rows_that_waited(tmp_path: Path, way: str) -> None:
    table = made(tmp_path)
    table.write(rows(4, "old"))
    table.compact()
    table.write(rows(2, "new"))
    done = WAYS[way](table)
    assert (done.committed, done.rows) == (True, 1)
    table.compact()
    assert keys(table) == [0, 2, 3]
    table.write(rows(1, "later", first=1))
    table.compact()
    assert keys(table) == [0, 1, 2, 3]
    assert table.audit().findings == ()


@pytest.mark.parametrize("way", ["condition", "keys"])
def test_a_delete_has_the_order_of_the_newest_record(tmp_path: Path, way: str) -> None:
    """A -D by the order of an older record would not remove the newer one."""
    options = {"bucket": "-2", "widetable.fsync": "false", **ORDERED}
    columns = {"p": "INT", "k": "BIGINT", "s": "INT"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", columns, primary_key=["p", "k"], partition_by=["p"], options=options
    )
    table.write([{"p": 1, "k": 1, "s": 1}])
    table.compact()
    table.write([{"p": 1, "k": 1, "s": 7}])
    WAYS[way](table)
    table.compact()
    assert keys(table) == []


def test_a_dry_run_places_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write(rows(4, "old"))
    assert table.delete("k = 1", dry_run=True).rows == 0
    assert (waiting(table), len(table.snapshots())) == (4, 1)


@pytest.mark.parametrize("way", ["condition", "keys"])
@pytest.mark.parametrize("is_placed", [False, True])
def test_a_row_that_is_written_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, is_placed: bool
) -> None:
    """The delete begins anew and takes the newer row, which it had not seen."""
    table, attempt = made(tmp_path), deletes._attempt
    table.write(rows(4, "old"))
    tries: list[object] = []

    def late(*given: Any) -> wt.CommitResult:
        if not tries:
            table.write(rows(1, "newer", first=1))
            if is_placed:
                table.compact()
        tries.append(given[-1])
        return attempt(*given)

    monkeypatch.setattr(deletes, "_attempt", late)
    WAYS[way](table)
    table.compact()
    assert len(tries) == 2
    assert keys(table) == [0, 2, 3]


def test_the_records_of_a_placed_row_have_commits(tmp_path: Path) -> None:
    table = made(tmp_path, {"merge-engine": "partial-update", "changelog-producer": "lookup"})
    table.write(rows(2, "a"), "first", 1)
    table.write(rows(2, "b"), "second", 1)
    table.compact()
    explained = table.explain({"p": 1, "k": 1})
    commits = [commit.user for record in explained.records for commit in record.commits]
    assert commits == ["first", "second"]
