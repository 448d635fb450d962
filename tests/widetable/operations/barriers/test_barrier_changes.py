"""Compactions are cut at barriers, and changes between barriers are the same whatever came when (cases 3 and 4)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.programs.command_line import run
from tests.support.tables.barrier_tables import (
    NAME,
    commit_without_barriers,
    compact_without_barriers,
    forget_barriers,
    new_table,
    newest_snapshot,
    rows_of,
)
from widetable.errors import InvalidError, NotFoundError
from widetable.operations.barriers.barrier_writer import BarrierWriter
from widetable.operations.compaction import compaction_job

Changes = list[tuple[Any, ...]]


def writers(warehouse: Path) -> tuple[wt.BarrierWriter, wt.BarrierWriter]:
    catalog = wt.Catalog(warehouse)
    return catalog.writer(NAME, "wa", ["a"]), catalog.writer(NAME, "wb", ["b"])


def changes(table: wt.Table, start: int, end: int) -> Changes:
    """(kind, id, a, b), in order."""
    found = table.changes(start, end, ["id", "a", "b"], mode="barrier")
    return [(row["_row_kind"], row["id"], row["a"], row["b"]) for row in found.to_pylist()]


def kinds(table: wt.Table) -> list[str]:
    return [row["commit_kind"] for row in table.inspect.snapshots().to_pylist()]


def test_case_3_changes_are_those_of_barriers_whoever_was_first(tmp_path: Path) -> None:
    table = new_table(tmp_path, changelog_producer="lookup")
    wa, wb = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=10, complete=True)
    wa.write({"id": [1], "a": [2]}, barrier=20, complete=True)
    assert "COMPACT" not in kinds(table)
    wb.write({"id": [1], "b": [5]}, barrier=10, complete=True)
    assert changes(table, 0, 10) == [("+I", 1, 1, 5)]
    with pytest.raises(NotFoundError, match="complete up to 10"):
        changes(table, 10, 20)
    wb.complete(20)
    assert changes(table, 10, 20) == [("-U", 1, 1, 5), ("+U", 1, 2, 5)]
    assert changes(table, 0, 20) == [("+I", 1, 1, 5), ("-U", 1, 1, 5), ("+U", 1, 2, 5)]
    assert not table.audit().findings


def test_case_4_a_compactor_that_is_behind_stops_at_round_barriers(tmp_path: Path) -> None:
    table = new_table(tmp_path, changelog_producer="lookup", write_only="true")
    wa = wt.Catalog(tmp_path).writer(NAME, "wa", ["a"])
    for number in range(1, 6):
        wa.write({"id": [1], "a": [number]}, barrier=number * 10, complete=True)
    with pytest.raises(NotFoundError, match="at level 0"):
        changes(table, 0, 50)
    table.compact()
    assert kinds(table)[-2:] == ["COMPACT", "COMPACT"]
    assert changes(table, 0, 40) == [("+I", 1, 4, None)]
    assert changes(table, 40, 50) == [("-U", 1, 4, None), ("+U", 1, 5, None)]
    with pytest.raises(NotFoundError, match=r"took all barriers up to 40 at once.*: 40, 50"):
        changes(table, 0, 30)
    with pytest.raises(NotFoundError, match="took all barriers up to 40 at once"):
        changes(table, 30, 40)


@pytest.mark.parametrize("producer", ["none", "input"])
def test_records_are_those_of_barriers_without_a_lookup(tmp_path: Path, producer: str) -> None:
    table = new_table(tmp_path, changelog_producer=producer)
    wa, wb = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=10, complete=True)
    wa.write({"id": [1], "a": [2]}, barrier=20, complete=True)
    wb.write({"id": [1], "b": [5]}, barrier=10, complete=True)
    wb.write({"id": [1], "b": [6]}, barrier=20, complete=True)
    assert changes(table, 0, 10) == [("+I", 1, 1, None), ("+I", 1, None, 5)]
    assert changes(table, 10, 20) == [("+I", 1, 2, None), ("+I", 1, None, 6)]
    assert changes(table, 20, 20) == []


@pytest.mark.parametrize("full", [False, True])
def test_a_compaction_takes_nothing_of_a_barrier_that_is_not_complete(
    tmp_path: Path, full: bool
) -> None:
    table = new_table(tmp_path, write_only="true")
    wa, wb = writers(tmp_path)
    wb.write({"id": [1], "b": [5]}, barrier=10, complete=True)
    for number in range(1, 8):
        wa.write({"id": [1], "a": [number]}, barrier=number * 10, complete=True)
    table.compact(full)
    levels = table.inspect.files()["level"].to_pylist()
    assert levels.count(0) == (6 if full else 8)
    assert table.inspect.buckets()["due_files"].to_pylist() == [0]
    assert rows_of(table.scan(barrier=10)) == [(1, 1, 5, None)]
    assert rows_of(table.scan()) == [(1, 7, 5, None)]
    wb.complete(70)
    table.compact(full=True)
    assert table.inspect.files()["level"].to_pylist() == [5]
    assert rows_of(table.scan()) == [(1, 7, 5, None)]


def test_a_writer_that_is_far_behind_costs_no_extras(tmp_path: Path) -> None:
    table = new_table(tmp_path, changelog_producer="lookup")
    wa, wb = writers(tmp_path)
    for barrier in range(10, 100, 10):
        wa.write({"id": [1], "a": [barrier]}, barrier=barrier, complete=True)
    for number in range(9):
        wb.write({"id": [1], "b": [number]}, barrier=20)
    wb.complete(20)
    scan = table.scan(barrier=20)
    assert rows_of(scan) == [(1, 20, 8, None)]
    assert sum(len(split.files) for split in scan.splits()) <= 2
    assert scan.snapshot_id is None


def test_a_compactor_that_died_between_groups_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first group alone is no position; the next compactor takes what is left up to the same barrier."""
    monkeypatch.setattr(compaction_job, "_GROUP_BUCKETS", 1)
    table = new_table(tmp_path, changelog_producer="lookup", write_only="true", bucket="3")
    wa = wt.Catalog(tmp_path).writer(NAME, "wa", ["a"])
    ids = list(range(20))
    wa.write({"id": ids, "a": ids}, barrier=10, complete=True)
    wa.write({"id": ids, "a": ids[::-1]}, barrier=20, complete=True)
    died = _DiesAfter(table, commits=1)
    monkeypatch.setattr(table._committer, "compact", died)
    with pytest.raises(KeyboardInterrupt):
        table.compact()
    with pytest.raises(NotFoundError, match="at level 0"):
        changes(table, 0, 20)
    wa.write({"id": ids, "a": ids}, barrier=30, complete=True)
    monkeypatch.undo()
    table.compact()
    assert sorted(changes(table, 0, 20)) == [("+I", id, 19 - id, None) for id in ids]
    assert len(changes(table, 20, 30)) == 40
    assert not table.audit().findings


class _DiesAfter:
    def __init__(self, table: wt.Table, commits: int) -> None:
        self._compact = table._committer.compact
        self._left = commits

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        return self._compact(*args, **kwargs)


def test_a_compaction_of_another_client_leaves_a_gap(tmp_path: Path) -> None:
    table = new_table(tmp_path, changelog_producer="lookup", write_only="true")
    wa, wb = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=10, complete=True)
    wb.write({"id": [1], "b": [1]}, barrier=10, complete=True)
    wa.write({"id": [1], "a": [2]}, barrier=20, complete=True)
    compact_without_barriers(table)
    with pytest.raises(NotFoundError, match="changes up to barrier 10"):
        changes(table, 0, 10)
    assert rows_of(table.scan(barrier=10)) == [(1, 1, 1, None)]
    wb.write({"id": [1], "b": [2]}, barrier=20, complete=True)
    table.compact()
    found = table.changes(0, 20, ["id", "a", "b"], mode="barrier").to_pylist()[-1]
    assert (found["a"], found["b"]) == (2, 2)
    assert rows_of(table.scan(barrier=20)) == [(1, 2, 2, None)]
    assert not table.audit().findings


def test_what_waits_is_looked_up_behind_other_clients(tmp_path: Path) -> None:
    table = new_table(tmp_path, changelog_producer="lookup", write_only="true")
    wa = wt.Catalog(tmp_path).writer(NAME, "wa", ["a"])
    wa.write({"id": [1], "a": [1]}, barrier=10, complete=True)
    commit_without_barriers(table, {"id": [2], "c": [2]})
    compact_without_barriers(table)
    BarrierWriter(table, "a stranger", None).leave()
    wa.complete(30)
    assert changes(table, 0, 30)[-1][0] == "+I"
    assert not table.audit().findings


@pytest.mark.parametrize("kind", ["APPEND", "COMPACT"])
def test_the_oldest_kept_snapshot_may_be_another_clients(tmp_path: Path, kind: str) -> None:
    """What it follows on has expired: its own label is unknown, and so are those of the files that it kept."""
    table = new_table(tmp_path, write_only="true", widetable__barriers_kept="0")
    wa, wb = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=10, complete=True)
    wb.write({"id": [1], "b": [1]}, barrier=10, complete=True)
    wa.write({"id": [2], "a": [2]}, barrier=20, complete=True)
    if kind == "APPEND":
        commit_without_barriers(table, {"id": [1], "c": [2]})
    else:
        table.compact(full=True)  # it leaves the file of barrier 20
        forget_barriers(table)
    wb.complete(20)
    table.expire_snapshots(2, 2, 0)
    assert [snapshot.commit_kind for snapshot in table.snapshots()] == [kind, "APPEND"]
    table = wt.Table.open(table.path)
    c = 2 if kind == "APPEND" else None
    assert rows_of(table.scan(barrier=20)) == [(1, 1, 1, c), (2, 2, None, None)]
    with pytest.raises(NotFoundError, match="expired"):
        table.scan(barrier=10)
    wb.write({"id": [3], "b": [3]}, barrier=30, complete=True)
    table.compact(full=True)
    assert rows_of(table.scan(barrier=20)) == [(1, 1, 1, c), (2, 2, None, None)]
    wa.complete(30)
    table.compact(full=True)
    expected = [(1, 1, 1, c), (2, 2, None, None), (3, None, 3, None)]
    assert rows_of(table.scan(barrier=30)) == rows_of(table.scan()) == expected
    assert not table.audit().findings


def test_changes_of_two_producers_are_not_mixed(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    catalog = wt.Catalog(tmp_path)
    wa = catalog.writer(NAME, "wa", ["a"])
    wa.write({"id": [1], "a": [1]}, barrier=10, complete=True)
    catalog.alter_table(NAME, set_options={"changelog-producer": "lookup"})
    wa.write({"id": [1], "a": [2]}, barrier=20, complete=True)
    with pytest.raises(InvalidError, match="changelog-producer was altered"):
        changes(table, 0, 20)
    wa.write({"id": [1], "a": [3]}, barrier=30, complete=True)
    assert changes(table, 20, 30) == [("-U", 1, 2, None), ("+U", 1, 3, None)]


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [(5, 10, "5"), (10, 15, "15"), (-10, 10, "-10"), ("10", 20, "start"), (20, 10, "10")],
)
def test_what_is_no_range_of_barriers_is_refused(
    tmp_path: Path, start: Any, end: Any, said: str
) -> None:
    table = new_table(tmp_path)
    wa = wt.Catalog(tmp_path).writer(NAME, "wa", ["a"])
    wa.write({"id": [1], "a": [1]}, barrier=20, complete=True)
    with pytest.raises(InvalidError, match=said):
        table.changes(start, end, mode="barrier")


@pytest.mark.parametrize("producer", ["none", "lookup"])
@pytest.mark.parametrize(
    "options",
    [
        {"merge_engine": "deduplicate"},
        {"merge_engine": "first-row"},
        {"partial_update__remove_record_on_delete": "true"},
        {"merge_engine": "aggregation", "fields__default_aggregate_function": "last_value"},
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_a_compaction_changes_no_newest_row_whoever_is_ahead(
    tmp_path: Path, rng: random.Random, options: dict[str, str], producer: str
) -> None:
    """Writers of the same columns, and deletes: what is left at level 0 may be older than what is taken."""
    table = new_table(tmp_path, write_only="true", changelog_producer=producer, **options)
    first = options.get("merge_engine") == "first-row"
    own = "partial_update__remove_record_on_delete" in options and rng.random() < 0.7
    # Not registered: jobs of the same columns are refused, other programs need not ask.
    joined = [BarrierWriter(table, f"w{c}", [c] if own else None) for c in "ab"]
    at = [0, 0]
    for number in range(40):
        who = rng.randrange(2)
        at[who] += 10 * rng.randrange(2)
        keys = rng.sample(range(3), 2)
        kinds = ["+I" if first else rng.choice(("+I", "+U", "-D")) for _ in keys]
        column = "ab"[who] if own else "a"
        rows = {"id": keys, column: [number] * 2, "_row_kind": kinds}
        if options.get("merge_engine") == "aggregation":
            rows = {"id": keys, "a": [number] * 2, "b": [who] * 2, "c": [None, number]}
        joined[who].write(rows, barrier=at[who] + 10)
        joined[who].complete(max(at[who], 10))
        if rng.random() < 0.3:
            before = rows_of(table.scan())
            table.compact(full=rng.random() < 0.5)
            assert rows_of(table.scan()) == before
    assert not table.audit().findings


def test_files_of_a_snapshot_that_somebody_went_back_from_are_not_remembered(
    tmp_path: Path,
) -> None:
    table = new_table(tmp_path, write_only="true")
    wa = wt.Catalog(tmp_path).writer(NAME, "wa", ["a"])
    wa.write({"id": [1], "a": [1]}, barrier=10)
    committer = table._committer
    latest = committer.snapshots.latest()
    assert latest is not None
    [before] = committer.level0.at(latest, 10).files.values()
    gone = newest_snapshot(table)
    gone.unlink()
    (gone.parent / "LATEST").write_text(str(latest.id - 1))
    wt.Catalog(tmp_path).writer(NAME, "wb", ["b"]).write({"id": [1], "b": [1]}, barrier=30)
    for id in (latest.id, latest.id + 1):
        now = committer.snapshots.load(id)
        expected = [] if id == latest.id else [30]
        assert [file.label for file in committer.level0.at(now, 10).files.values()] == expected
    assert before.label == 10


def test_the_command_line_writes_changes_of_barriers(tmp_path: Path) -> None:
    table = new_table(tmp_path, changelog_producer="lookup")
    wa = wt.Catalog(tmp_path).writer(NAME, "wa", ["a"])
    for barrier in (10, 20):
        wa.write({"id": [1], "a": [barrier]}, barrier=barrier, complete=True)
    done = run("changes", table.path, "10", "20", "--mode", "barrier", "--columns", "id,a")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["_row_kind"], line["a"]) for line in lines] == [("-U", 10), ("+U", 20)]
    refused = run("changes", table.path, "10", "25", "--mode", "barrier")
    assert refused.exit_code
    assert "25" in refused.stderr


def test_labels_of_a_writer_never_go_back(tmp_path: Path) -> None:
    """Else the later commit would win or not by when a compaction took the other."""
    table = new_table(tmp_path)
    wa, wb = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=50)
    wa.write({"id": [1], "a": [2]}, barrier=20)
    wa.complete(20)
    wb.complete(20)
    assert rows_of(table.scan(barrier=20)) == []
    wa.leave()
    wa.write({"id": [1], "a": [3]}, barrier=30)
    wa.complete(50)
    wb.complete(50)
    assert rows_of(table.scan(barrier=40)) == []
    assert rows_of(table.scan(barrier=50)) == [(1, 3, None, None)]
