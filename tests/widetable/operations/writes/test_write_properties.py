"""Texts that a caller stores in the snapshot of its write."""

from __future__ import annotations

from pathlib import Path

import pytest

from widetable import Catalog, InvalidError

COLUMNS = {"id": "BIGINT", "city": "STRING"}


def test_a_write_stores_properties_in_its_snapshot_alone(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", COLUMNS, primary_key=["id"])
    table.write([{"id": 1}], "job", 1, properties={"source.position": "0/16B3748"})
    table.write([{"id": 2}], "job", 2)
    kept = [
        s.properties.get("source.position") for s in table.snapshots() if s.commit_kind == "APPEND"
    ]
    assert kept == ["0/16B3748", None]


def test_a_write_without_rows_keeps_its_properties(tmp_path: Path) -> None:
    """A position may move without rows, so this is a commit, as it is with `commit_append`."""
    table = Catalog(tmp_path).create_table("db.t", COLUMNS, primary_key=["id"])
    assert not table.write([], "job", 1).committed
    assert table.write([], "job", 1, properties={"source.position": "7"}).committed
    assert not table.write([], "job", 1, properties={"source.position": "7"}).committed
    assert table.snapshots()[-1].properties["source.position"] == "7"


def test_a_writer_of_barriers_stores_properties_too(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    options = {"widetable.barrier-interval": "1 s"}
    table = catalog.create_table("db.t", COLUMNS, primary_key=["id"], options=options)
    writer = catalog.writer("db.t", "job")
    writer.write([{"id": 1}], 1, barrier=1000, complete=True, properties={"source.position": "7"})
    snapshot = next(s for s in table.snapshots() if s.commit_identifier == 1)
    assert snapshot.properties["source.position"] == "7"
    assert snapshot.properties["widetable.barrier"] == "1000"


@pytest.mark.parametrize("properties", [{"widetable.rows": "7"}, {"a": 7}, "text"])
def test_properties_that_are_no_texts_or_not_the_callers_are_refused(
    tmp_path: Path, properties: object
) -> None:
    table = Catalog(tmp_path).create_table("db.t", COLUMNS, primary_key=["id"])
    with pytest.raises(InvalidError):
        table.write([{"id": 1}], properties=properties)  # type: ignore[arg-type]
