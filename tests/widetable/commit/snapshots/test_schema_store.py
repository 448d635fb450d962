"""Schema files: consecutive, published once, read once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.widetable.commit.transaction.fake_table import make_table
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.errors import DamagedError, NotFoundError, StorageError
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


def test_latest_sees_what_others_publish(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    store, other = SchemaStore(IO, paths), SchemaStore(IO, paths)
    first = store.latest()
    assert first.id == 0
    assert other.publish(replace(first, id=1, comment="one"))
    assert not store.publish(replace(first, id=1, comment="too late"))
    assert store.latest().comment == "one"
    assert other.publish(replace(first, id=2))
    assert (store.latest().id, store.load(1).comment, store.ids()) == (2, "one", [0, 1, 2])


def test_latest_costs_one_look_once_it_is_known(tmp_path: Path) -> None:
    file_io = FaultyFileIO(IO)
    store = SchemaStore(file_io, make_table(tmp_path))
    store.latest()
    file_io.log.clear()
    store.latest()
    assert [operation for operation, _ in file_io.log] == ["exists"]


def test_no_table_and_no_such_schema(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        SchemaStore(IO, TablePaths(str(tmp_path / "nowhere"))).latest()
    with pytest.raises(NotFoundError, match="schema-7"):
        SchemaStore(IO, make_table(tmp_path)).load(7)


def test_damage_names_the_file(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    IO.write_new(paths.schema(1), IO.read(paths.schema(0)))
    with pytest.raises(DamagedError, match="schema-1"):
        SchemaStore(IO, paths).latest()
    IO.write_new(paths.schema(2), b"{]")
    with pytest.raises(DamagedError, match="schema-2"):
        SchemaStore(IO, paths).latest()


def test_a_publish_whose_answer_was_lost(tmp_path: Path) -> None:
    file_io = FaultyFileIO(IO)
    store = SchemaStore(file_io, make_table(tmp_path))
    schema = store.latest()
    file_io.fail("publish", Fault.AFTER, "schema-1")
    assert store.publish(replace(schema, id=1))
    for fault in (Fault.BEFORE, Fault.FULL):
        file_io.fail("publish", fault, "schema-2")
        with pytest.raises(StorageError):
            store.publish(replace(schema, id=2))
    # Somebody else's is there: an error, not taken for ours.
    SchemaStore(IO, TablePaths(str(tmp_path))).publish(replace(schema, id=2, comment="theirs"))
    file_io.fail("publish", Fault.BEFORE, "schema-2")
    with pytest.raises(StorageError):
        store.publish(replace(schema, id=2))


def test_whether_buckets_changed_is_looked_up_once_per_schema(tmp_path: Path) -> None:
    file_io = FaultyFileIO(IO)
    paths = make_table(tmp_path)
    store = SchemaStore(file_io, paths)
    first = store.latest()

    def publish(id: int, bucket: str) -> None:
        assert store.publish(replace(first, id=id, options={**first.options, "bucket": bucket}))

    def asked() -> tuple[bool, int]:
        file_io.log.clear()
        store.latest()
        return store.is_rescaled(), sum(operation == "read" for operation, _ in file_io.log)

    before = first.options["bucket"]
    assert asked() == (False, 0)
    publish(1, before)
    publish(2, before)
    assert asked() == (False, 2)  # schemas 1 and 2
    assert asked() == (False, 0)
    publish(3, "77")
    assert asked() == (True, 1)
    publish(4, before)
    assert asked() == (True, 1)
    assert SchemaStore(IO, paths).is_rescaled()


def test_schemas_that_another_client_let_go_are_passed_over(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    first = SchemaStore(IO, paths).latest()
    for id in (1, 2):
        assert SchemaStore(IO, paths).publish(replace(first, id=id))
    IO.delete(paths.schema(0))
    assert SchemaStore(IO, paths).is_rescaled()  # it may have been: nobody knows
    table = wt.Table.open(paths.root)
    table.write({"id": [1], "v": ["a"]})
    table.write({"id": [1], "v": ["b"]})
    assert table.rollback(1).snapshot_id == 3
    assert table.scan().to_arrow()["v"].to_pylist() == ["a"]
