"""`delete(.., rewrite=True)` takes rows out of the data files of any table, and leaves all others as they were."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.plain_rows import plain, python_rows, row_texts
from tests.support.models.random_table import data_of, make, stamped_commits, table_specs
from tests.widetable.operations.writes.test_delete import REMOVES, create, filled, keys_of, rows
from widetable.operations.queries import row_removal

# Tables in which a -D removes nothing, and others: the rows are taken out of the files of any.
REWRITTEN: dict[str, dict[str, str]] = {
    **REMOVES,
    "partial-update, no deletes": {"merge-engine": "partial-update"},
    "two sequence groups": {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "v",
        "fields.s.sequence-group": "t",
    },
    "aggregation, no deletes": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
    },
    "first-row": {"merge-engine": "first-row"},
    "ignore-delete": {"ignore-delete": "true"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "write-only": {"write-only": "true"},
    "no changelog": {"changelog-producer": "none"},
    "input": {"merge-engine": "partial-update", "changelog-producer": "input"},
    "full-compaction": {"merge-engine": "partial-update", "changelog-producer": "full-compaction"},
    "wide files": {"widetable.level0-columns": "all"},
    "dynamic buckets": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
}


@pytest.mark.parametrize("options", REWRITTEN.values(), ids=list(REWRITTEN))
def test_rows_are_taken_out_of_the_files_of_any_table(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = filled(tmp_path, options)
    table.write(rows(range(7, 9)))  # in several files, at several levels
    before = {(row["p"], row["k"]): row for row in table.scan().to_arrow().to_pylist()}
    assert table.delete("k >= 7 AND p = 1", dry_run=True, rewrite=True).rows == 3
    assert table.delete("k >= 7 AND p = 1", rewrite=True).rows == 3
    given = [{"p": 1, "k": 2}, {"p": 2, "k": 3}, {"p": 2, "k": 99}]
    assert table.delete_keys(given, rewrite=True).rows == 2
    gone = {(1, 7), (1, 8), (1, 9), (1, 2), (2, 3)}
    left = {key: row for key, row in before.items() if key not in gone}
    for _ in range(2):
        found = table.scan().to_arrow().to_pylist()
        assert {(row["p"], row["k"]): row for row in found} == left
        assert table.audit().ok
        assert not table.delete_keys(given, rewrite=True).committed
        table.compact(full=True)
    table.write(rows(range(8, 9)))  # a new row, of which nothing is remembered
    (row,) = table.lookup([{"p": 1, "k": 8}]).to_pylist()
    assert row == {"p": 1, "k": 8, "v": 80, "g": 5, "s": "+I", "t": 8}


def test_nothing_of_a_rewritten_row_is_in_the_live_files(tmp_path: Path) -> None:
    table = filled(tmp_path, {"merge-engine": "partial-update", "write-only": "true"})
    table.write({"p": [1], "k": [5], "_row_kind": ["+I"], "v": [7]})
    table.delete_keys([{"p": 1, "k": 5}], rewrite=True)
    state = table._state()
    for entry in table._committer.live_files.live_entries(table._committer.snapshots.latest()):
        with state.opened(entry.bucket_id, entry.file) as data:
            held = [key for batch in data.batches() for key in batch.column("k").to_pylist()]
        assert 5 not in held or "p=2" in state.bucket_dir(entry.bucket_id)


def test_rows_are_taken_out_of_rescaled_partitions(tmp_path: Path) -> None:
    table = filled(tmp_path, {"merge-engine": "first-row"})
    table.rescale(3, [{"p": 2}])
    assert table.delete("k < 4", rewrite=True).rows == 8
    assert keys_of(table) == [(p, k) for p in (1, 2) for k in range(4, 10)]
    assert table.audit().ok


def test_taken_out_rows_of_a_repeated_delete_are_in_once(tmp_path: Path) -> None:
    table = filled(tmp_path, {"merge-engine": "first-row"})
    assert table.delete("k = 3", "job", 1, rewrite=True).rows == 2
    table.write(rows(range(3, 4)))
    assert not table.delete("k = 3", "job", 1, rewrite=True).committed
    assert (1, 3) in keys_of(table)


@pytest.mark.parametrize("meanwhile", ["write", "compact"])
def test_what_others_do_meanwhile_makes_a_rewrite_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    table = filled(tmp_path, options | {"write-only": "true"})
    other = wt.Table.open(tmp_path / "db.db/t")
    real, tries = row_removal._messages, list[int]()

    def overtaken(*given: Any) -> Any:
        messages = real(*given)
        tries.append(1)
        if len(tries) == 1:
            if meanwhile == "write":
                other.write(rows(range(3, 4)) | {"v": [1]})
                other.write(rows(range(8, 9)))  # of another key: no matter
            else:
                other.compact(full=True)
        return messages

    monkeypatch.setattr(row_removal, "_messages", overtaken)
    table.delete("v = 30", rewrite=True)
    left = {(1, 3)} if meanwhile == "write" else set()  # it is no such row any more
    assert {(1, 3), (2, 3)} & {*keys_of(table)} == left
    assert len(tries) == 2
    assert table.remove_orphan_files(older_than_millis=0, dry_run=True).paths == ()
    assert table.audit().ok


def test_a_table_under_barriers_keeps_its_rows(tmp_path: Path) -> None:
    table = create(tmp_path, {"widetable.barrier-interval": "10 s", "changelog-producer": "none"})
    with pytest.raises(wt.UnsupportedError, match="barrier"):
        table.delete("true", rewrite=True)


@settings(max_examples=max(5, settings().max_examples // 4))
@given(st.data())
def test_what_is_left_of_any_table_is_what_was_not_taken_out(data: st.DataObject) -> None:
    spec = data.draw(table_specs(), "table")
    with TemporaryDirectory() as folder:
        table = make(folder, spec)
        for _ in range(data.draw(st.integers(1, 3), "commits")):
            table.write(data_of(spec.schema, data.draw(stamped_commits(spec.schema, spec.keys))))
        before = table.scan().to_arrow()
        chosen = [row for row in range(before.num_rows) if data.draw(st.booleans(), "deleted")]
        keys = before.select(list(spec.primary_key)).take(pa.array(chosen, pa.int64()))
        assert table.delete_keys(keys, rewrite=True).rows == len(chosen)
        left = before.take(pa.array(sorted({*range(before.num_rows)} - {*chosen}), pa.int64()))
        expected = row_texts([plain(row) for row in python_rows(left)])
        assert row_texts([plain(row) for row in python_rows(table.scan().to_arrow())]) == expected
        table.compact(full=True)
        assert row_texts([plain(row) for row in python_rows(table.scan().to_arrow())]) == expected
