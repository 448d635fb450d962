"""Who writes, compacts and reads changes while a table gets other buckets: nobody is refused, nothing is lost."""

from __future__ import annotations

import operator
import random
import threading
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.faults.patience import wait_for
from tests.support.models.random_table import live_files
from tests.support.tables.rescaled import check, create, write
from widetable.commit.transaction.committer import Committer
from widetable.operations.maintenance.partition_move import PartitionMove


@pytest.mark.parametrize("producer", ["none", "lookup", "input"])
def test_rows_of_a_writer_of_the_old_buckets_go_to_the_new_ones(
    tmp_path: Path, producer: str
) -> None:
    table, model = (
        create(tmp_path, True, **{"changelog-producer": producer}),
        dict[tuple[int, int], int](),
    )
    write(table, model, random.Random(2))
    last = table.snapshots()[-1].id
    writer = table.new_writer(["p", "k", "v"])
    # A partition that is rescaled, and one that is made meanwhile with the new number.
    writer.write({"p": [1] * 9 + [7], "k": [*range(9), 1], "v": [5] * 10})
    messages = writer.finish()
    table.rescale(5)
    table.write({"p": [7], "k": [0], "v": [4]})
    done = table.commit_append(messages, "u", 1)
    assert (done.committed, done.rows) == (True, 10)
    again = table.commit_append(messages, "u", 1)
    assert (again.committed, again.snapshot_id) == (False, done.snapshot_id)
    model |= {(1, k): 5 for k in range(9)} | {(7, 0): 4, (7, 1): 5}
    check(table.path, model)
    assert {place.number for place in live_files(table.path)} > {0, 1}
    found = table.changes(last, table.snapshots()[-1].id).to_pylist()
    kinds = ("+I", "+U")
    after = [(row["p"], row["k"], row["v"]) for row in found if row["_row_kind"] in kinds]
    expected = [(1, k, 5) for k in range(9)] + [(7, 0, 4), (7, 1, 5)]
    assert sorted(after) == expected
    assert table.remove_orphan_files(older_than_millis=0, dry_run=True).paths == ()


def test_a_commit_that_fails_leaves_nothing_of_what_it_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rescaled again whenever the rows have been moved: given up in the end, with the files that the caller has."""
    table, model = create(tmp_path), dict[tuple[int, int], int]()
    write(table, model, random.Random(2))
    writer = table.new_writer(["p", "k", "v"])
    writer.write({"p": [1, 1, 1], "k": [1, 2, 3], "v": [5, 5, 5]})
    messages, calls = writer.finish(), list[int]()
    append = Committer.append

    def racing(self: Committer, *given: Any, **named: Any) -> Any:
        calls.append(1)
        table.rescale(3 + len(calls) % 2)
        return append(self, *given, **named)

    monkeypatch.setattr(Committer, "append", racing)
    with pytest.raises(wt.ConflictError, match="buckets"):
        table.commit_append(messages)
    monkeypatch.undo()
    assert len(calls) == 10
    orphans = table.remove_orphan_files(older_than_millis=0, dry_run=True).paths
    names = {file.file_name for message in messages for file in message.new_files}
    assert {Path(path).name for path in orphans} == names
    assert table.commit_append(messages).rows == 3
    check(table.path, model | {(1, k): 5 for k in (1, 2, 3)})


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_changes_that_are_yet_to_be_emitted_are_emitted_after_it(
    tmp_path: Path, producer: str
) -> None:
    options = {"changelog-producer": producer, "write-only": "true"}
    table, model, rng = (
        create(tmp_path, True, **options),
        dict[tuple[int, int], int](),
        random.Random(9),
    )
    for buckets in (3, 1, 4):
        start = table.snapshots()[-1].id if table.snapshots() else 0
        before = dict(model)
        for _ in range(2):
            write(table, model, rng)
        table.rescale(buckets)
        assert table.changes(start, table.snapshots()[-1].id).num_rows == 0
        table.compact(full=True)
        folded = before
        for row in table.changes(start, table.snapshots()[-1].id).to_pylist():
            key = row["p"], row["k"]
            if row["_row_kind"] in ("-U", "-D"):
                assert folded.pop(key) == row["v"]
            else:
                assert key not in folded
                folded[key] = row["v"]
        assert folded == model
    report = table.audit(start=0)
    assert report.ok, report.findings


@pytest.mark.parametrize("written", [(), (1,), (45,)])
def test_a_conditional_commit_sees_who_wrote_its_keys_before_and_after(
    tmp_path: Path, written: tuple[int, ...]
) -> None:
    """A rescaling in between writes no key, and hides nobody who does."""
    table, model = create(tmp_path), dict[tuple[int, int], int]()
    write(table, model, random.Random(12))
    read = table.snapshots()[-1].id
    writer = table.new_writer(["p", "k", "v"])
    writer.write({"p": [1] * 40, "k": list(range(40)), "v": [5] * 40})
    messages = writer.finish()
    for buckets in (5, 3):
        for key in written if buckets == 5 else ():
            table.write({"p": [1], "k": [key], "v": [3]})
            model[1, key] = 3
        table.rescale(buckets)
    if 1 in written:
        with pytest.raises(wt.ConflictError, match="1 key"):
            table.commit_append(messages, read_snapshot=read)
        table.discard(messages)
    else:
        assert table.commit_append(messages, read_snapshot=read).committed
        model |= {(1, k): 5 for k in range(40)}
    check(table.path, model)


def test_a_partition_that_is_rescaled_is_not_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what is moved would have gone again and again; its changes are emitted as soon as it is done."""
    table, model = (
        create(tmp_path, True, **{"changelog-producer": "lookup"}),
        dict[tuple[int, int], int](),
    )
    write(table, model, random.Random(11))
    last, follow = table.snapshots()[-1].id, PartitionMove.follow

    def slow(self: PartitionMove, *given: Any) -> None:
        follow(self, *given)
        if self._partition not in seen:
            seen.append(self._partition)
            other = wt.Table.open(table.path)
            other.write({"p": [0, 1, 2], "k": [60] * 3, "v": [len(seen)] * 3})
            other.compact(full=True)
            levels = [
                file.level
                for place, files in live_files(table.path).items()
                for file in files
                if place.partition == self._partition
            ]
            assert 0 in levels

    seen: list[bytes] = []
    monkeypatch.setattr(PartitionMove, "follow", slow)
    done = table.rescale(3)
    assert [result.committed for result in done] == [True] * 3
    monkeypatch.undo()
    model |= {(p, 60): 3 for p in range(3)}
    check(table.path, model)
    level0 = [file for files in live_files(table.path).values() for file in files if not file.level]
    assert level0 == []
    changes = table.changes(last, table.snapshots()[-1].id).to_pylist()
    kinds = [row["_row_kind"] for row in changes if (row["p"], row["k"]) == (1, 60)]
    assert kinds[0] == "+I"
    assert table.audit(start=0).ok


@pytest.mark.parametrize("write_only", ["true", "false"])
def test_writers_that_go_on_and_on_are_told_the_truth(tmp_path: Path, write_only: str) -> None:
    options = {"changelog-producer": "lookup", "write-only": write_only}
    table, stop = create(tmp_path, True, **options), threading.Event()
    write(table, {}, random.Random(13))
    told: list[list[wt.CommitResult]] = [[], []]
    errors: list[BaseException] = []

    def writing(number: int) -> None:
        mine = wt.Table.open(table.path)
        try:
            while not stop.wait(0.02):  # what they write without any pause takes minutes to look at
                at = len(told[number])
                data = {"p": [0, 1, 2], "k": [100 + number] * 3, "v": [at] * 3}
                told[number].append(mine.write(data, f"writer {number}", at))
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=writing, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for buckets in (5, 1, 3):
            before = [len(results) for results in told]
            assert len(table.rescale(buckets)) == 3
            wait_for(lambda: all(map(operator.lt, before, map(len, told))) or bool(errors))  # noqa: B023
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert all(result.committed for results in told for result in results)
    named = [(s.commit_user, s.commit_identifier) for s in table.snapshots()]
    for number, results in enumerate(told):
        of_user = [identifier for user, identifier in named if user == f"writer {number}"]
        assert of_user == list(range(len(results)))
    found = table.scan(filter="k >= 100").to_arrow().to_pylist()
    assert {(row["p"], row["k"]): row["v"] for row in found} == {
        (p, 100 + number): len(told[number]) - 1 for p in range(3) for number in range(2)
    }
    table.compact(full=True)
    report = table.audit(start=0)
    assert report.ok, report.findings
