"""Index files with vectors that are empty, cut or of other rows: named in every way to read, and by doctor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import widetable as wt
from widetable.format.deletion_vector import encode_vector


def table_with_vectors(folder: Path) -> wt.Table:
    """100 rows at the bottom, of which some are deleted by a vector."""
    table = wt.Catalog(str(folder)).create_table(
        "db.t",
        {"k": "INT", "v": "INT"},
        primary_key=["k"],
        options={
            "bucket": "1",
            "deletion-vectors.enabled": "true",
            "num-sorted-run.compaction-trigger": "3",
            "widetable.fsync": "false",
        },
    )
    table.write({"k": list(range(100)), "v": [0] * 100})
    table.compact(full=True)
    table.write({"k": [3, 4, 90], "v": [1] * 3})
    table.compact()
    assert list(Path(table.path, "index").iterdir()), "there is a vector"
    return table


def index_file(table: wt.Table) -> Path:
    (path,) = Path(table.path, "index").iterdir()
    return path


def emptied(table: wt.Table) -> None:
    index_file(table).write_bytes(b"")


def cut(table: wt.Table) -> None:
    path = index_file(table)
    path.write_bytes(path.read_bytes()[:-3])


def of_rows_beyond(table: wt.Table) -> None:
    """The same length, rows that the file does not have."""
    path = index_file(table)
    data = path.read_bytes()
    vector = encode_vector(np.array([3, 4, 5000], np.int64))
    assert len(data) == 1 + len(vector)
    path.write_bytes(data[:1] + vector)


def removed(table: wt.Table) -> None:
    index_file(table).unlink()


DAMAGES: list[Callable[[wt.Table], None]] = [emptied, cut, of_rows_beyond, removed]
WAYS: dict[str, Callable[[wt.Table], object]] = {
    "scan": lambda table: table.scan().to_arrow(),
    "lookup": lambda table: table.lookup({"k": [1, 3]}),
    "compact": lambda table: table.compact(full=True),
    "explain": lambda table: table.explain(3),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("way", WAYS)
def test_the_damage_is_named(tmp_path: Path, damage: Callable[[wt.Table], None], way: str) -> None:
    table = table_with_vectors(tmp_path)
    damage(table)
    with pytest.raises(wt.DamagedError):
        WAYS[way](wt.Table.open(table.path))


@pytest.mark.parametrize("damage", DAMAGES)
def test_doctor_finds_it(tmp_path: Path, damage: Callable[[wt.Table], None]) -> None:
    table = table_with_vectors(tmp_path)
    assert wt.Table.open(table.path).doctor(deep=True).ok
    damage(table)
    found = wt.Table.open(table.path).doctor(deep=True)
    assert not found.ok, found


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_rollback_is_the_way_out(tmp_path: Path, damage: Callable[[wt.Table], None]) -> None:
    """It compares the vector of then with the one of now, which cannot be read."""
    table = table_with_vectors(tmp_path)
    before = next(one.id for one in table.snapshots() if one.commit_kind == "COMPACT")
    damage(table)
    table = wt.Table.open(table.path)
    table.rollback(before)
    assert table.scan().to_arrow().column("v").to_pylist() == [0] * 100
    assert table.doctor(deep=True).ok
    assert table.audit().ok


@pytest.mark.parametrize("damage", [emptied, removed])
def test_no_rollback_to_a_vector_that_cannot_be_read(
    tmp_path: Path, damage: Callable[[wt.Table], None]
) -> None:
    table = table_with_vectors(tmp_path)
    marked = table.snapshots()[-1].id
    table.compact(full=True)
    damage(table)
    count = len(table.snapshots())
    with pytest.raises(wt.DamagedError):
        wt.Table.open(table.path).rollback(marked)
    assert len(table.snapshots()) == count


@pytest.mark.parametrize("damage", [emptied, cut, removed])
def test_an_audit_finds_it(tmp_path: Path, damage: Callable[[wt.Table], None]) -> None:
    """It said that all laws hold, and what it had not looked at."""
    table = table_with_vectors(tmp_path)
    assert table.audit().checks["vectors"] == 1
    damage(table)
    report = wt.Table.open(table.path).audit()
    assert report.found == {"vectors": 1}
    assert report.findings[0].file is not None
