"""Stores besides S3's protocol: Azure Blob (Azurite), and Google's requests (a stand-in of ours)."""

from __future__ import annotations

import pickle
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import widetable as wt
from tests.object_stores import azurite
from tests.object_stores.azurite import NEEDS_AZURITE
from tests.object_stores.gcs_stand_in import gcs_stand_in, key_file
from tests.object_stores.s3_server import BUCKET
from tests.object_stores.test_tables import COLUMNS, OPTIONS, run_of_operations
from widetable.errors import InvalidError, NotFoundError
from widetable.storage import store_client
from widetable.storage.file_io import FileIO
from widetable.storage.locate import locate
from widetable.storage.storage_options import checked_storage_options


class Store(NamedTuple):
    """place: a directory that nobody else has."""

    place: str
    options: dict[str, str]

    @property
    def file_io(self) -> FileIO:
        return locate(self.place, options=checked_storage_options(self.options))[0]


@pytest.fixture(params=["gs", pytest.param("abfss", marks=NEEDS_AZURITE)])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    monkeypatch.setattr(store_client, "_CLIENTS", {})
    monkeypatch.setattr(store_client, "_USERS", {})
    name = uuid.uuid4().hex
    if request.param == "abfss":
        with azurite.azurite() as port:
            yield Store(f"{azurite.ROOT}/{name}", azurite.options(port))
        return
    with gcs_stand_in(request.getfixturevalue("server")) as stand_in:
        options = {
            "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
            "fs.gs.auth.service.account.json.keyfile": str(
                key_file(tmp_path, stand_in.server_port)
            ),
        }
        yield Store(f"gs://{BUCKET}/{name}", options)


def test_operations_give_what_they_give_on_a_disk(store: Store, tmp_path: Path) -> None:
    found = []
    for warehouse, options in ((store.place, store.options), (str(tmp_path / "wh"), None)):
        catalog = wt.Catalog(warehouse, storage_options=options)
        table = catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=OPTIONS)
        found.append(run_of_operations(pickle.loads(pickle.dumps(table))))
        catalog.drop_table("db.t")
        assert catalog.list_tables() == []
    assert found[0] == found[1]


def one_of_many(take: Callable[[bytes], bool]) -> list[bytes]:
    """Who got True."""
    barrier = threading.Barrier(6)
    won: list[bytes] = []

    def one(data: bytes) -> None:
        barrier.wait()
        if take(data):
            won.append(data)

    threads = [threading.Thread(target=one, args=(b"%d" % number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


def test_one_of_many_publishes_and_takes_over(store: Store) -> None:
    file_io, path = store.file_io, f"{store.place}/deep/snapshot-1"
    assert file_io.publish(f"{store.place}/first", b"")
    assert one_of_many(lambda data: file_io.publish(path, data)) == [file_io.read(path)]
    file_io.replace(path, b"over")
    taken = one_of_many(lambda data: file_io.replace_if(path, b"over", data))
    assert taken == [file_io.read(path)]


@pytest.mark.parametrize("size", [0, 10, (1 << 20) + 1, 20_000_000])
def test_streams(store: Store, size: int, rng: random.Random) -> None:
    file_io, path = store.file_io, f"{store.place}/data-1.parquet"
    data = rng.randbytes(size)
    with file_io.open_output(path) as out:
        out.write(data)
    assert file_io.size(path) == size
    with file_io.open_input(path) as source:
        assert source.read() == data
        source.seek(size // 2)
        assert source.read(10) == data[size // 2 :][:10]


def test_keys_and_what_is_not_there(store: Store) -> None:
    file_io, name = store.file_io, "dt=a%3Ab c&d#e+f=ü"
    file_io.write_new(f"{store.place}/{name}/x", b"1")
    with pytest.raises(InvalidError, match="x"):
        file_io.write_new(f"{store.place}/{name}/x", b"2")
    assert [entry.name for entry in file_io.list(store.place)] == [name]
    assert [entry.name for entry in file_io.list(f"{store.place}/{name}")] == ["x"]
    assert file_io.link(f"{store.place}/{name}/x", f"{store.place}/y", replace=True)
    assert file_io.read(f"{store.place}/y") == b"1"
    with pytest.raises(NotFoundError, match="missing"):
        file_io.open_input(f"{store.place}/missing")
    assert not file_io.replace_if(f"{store.place}/missing", b"", b"1")
    assert file_io.delete(f"{store.place}/y")
    assert not file_io.delete(f"{store.place}/y")
    assert file_io.delete_dir(f"{store.place}/{name}")
    assert file_io.list(store.place) == []
