"""Commits of files of an old number of buckets, whatever the files are like, and whoever rescales meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.random_table import live_files
from widetable.operations.writes import rebucketed_commit

COLUMNS = {"k": "BIGINT", "a": "STRING", "a_at": "BIGINT", "b": "STRING", "b_at": "BIGINT"}
OPTIONS = {
    "bucket": "2",
    "merge-engine": "partial-update",
    "fields.a_at.sequence-group": "a",
    "fields.b_at.sequence-group": "b",
    "write-only": "true",
}


def create(path: Path, buffer: str = "16 kb") -> wt.Table:
    options = {**OPTIONS, "write-buffer-size": buffer}
    return wt.Catalog(path).create_table("db.t", COLUMNS, primary_key=["k"], options=options)


def part(column: str, number: int, rows: int) -> pa.Table:
    """Of one writer: a group of columns."""
    texts = [f"{column}{number}" + "x" * 300] * rows
    return pa.table({"k": range(rows), column: texts, f"{column}_at": pa.array([number] * rows)})


@pytest.mark.parametrize(("rows", "files", "buffer"), [(10, 4, "16 kb"), (3, 140, "64 mb")])
@pytest.mark.parametrize("is_committed", [True, False])
def test_files_of_different_columns_are_moved(
    tmp_path: Path, rows: int, files: int, buffer: str, *, is_committed: bool
) -> None:
    """Spilled, and so many that small batches are joined; in the table, and not in it yet."""
    table = create(tmp_path, buffer)
    table.write(part("a", 0, 1))
    base = table.sequence_base()
    messages: list[Any] = []
    for number in range(files):
        data = part("ab"[number % 2], number, rows)
        with table.new_writer(data.column_names, task=number, tasks=files, sequence_base=base) as w:
            w.write(data.to_batches())
            messages += w.finish()
    if is_committed:
        table.commit_append(messages, "user", 1)
    table.rescale(3)
    if not is_committed:
        assert table.commit_append(messages, "user", 1).committed
    last = {"ab"[number % 2]: number for number in range(files)}
    expected = [
        {"k": k, **{c: part(c, n, 1)[c][0].as_py() for c, n in last.items()}} for k in range(rows)
    ]
    found = table.scan(columns=["k", "a", "b"]).to_arrow().sort_by("k").to_pylist()
    assert found == expected
    assert table.audit().findings == ()


def test_a_number_that_comes_back_before_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path)
    data = part("a", 1, 3)
    with table.new_writer(data.column_names) as writer:
        writer.write(data.to_batches())
        messages = writer.finish()
    table.write(part("a", 0, 3))
    table.rescale(3)
    look = rebucketed_commit._rebucketed

    def after_another_rescaling(*given: Any) -> Any:
        monkeypatch.setattr(rebucketed_commit, "_rebucketed", look)
        table.rescale(2)
        return look(*given)

    monkeypatch.setattr(rebucketed_commit, "_rebucketed", after_another_rescaling)
    assert table.commit_append(messages, "user", 1).committed
    assert table.scan(columns=["a_at"]).to_arrow()["a_at"].to_pylist() == [1] * 3


def test_a_conflict_of_another_kind_is_raised(tmp_path: Path) -> None:
    """In a table that was rescaled the commit is asked once more, and no longer."""
    table = create(tmp_path)
    table.write(part("a", 0, 3))
    table.rescale(3)
    read = table.snapshots()[-1].id
    table.write(part("a", 1, 3))
    data = part("b", 1, 3)
    with table.new_writer(data.column_names) as writer:
        writer.write(data.to_batches())
        messages = writer.finish()
    with pytest.raises(wt.ConflictError, match="written after"):
        table.commit_append(messages, read_snapshot=read)


def test_rows_that_cannot_be_moved_a_second_time_leave_no_files_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path)
    data = part("a", 1, 3)
    with table.new_writer(data.column_names) as writer:
        writer.write(data.to_batches())
        messages = writer.finish()
    table.write(part("a", 0, 3))
    table.rescale(3)
    look, given = rebucketed_commit._rebucketed, set(Path(table.path).glob("bucket-*/*"))

    def refused(*given: Any) -> Any:
        raise wt.StorageError("it", found="x", expected="y", action="Z.")

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(rebucketed_commit, "_rebucketed", refused)
        placed = look(*given)
        table.rescale(5)
        return placed

    monkeypatch.setattr(rebucketed_commit, "_rebucketed", overtaken)
    with pytest.raises(wt.StorageError):
        table.commit_append(messages, "user", 1)
    left = set(Path(table.path).glob("bucket-*/*")) - given
    assert {path.name for path in left} == {
        file.file_name for files in live_files(table.path).values() for file in files
    }
