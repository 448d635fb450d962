"""Stores besides S3's protocol: Azure Blob (Azurite), Google's (two emulators, and a stand-in of ours).

A proxy stands in front of each, in which nothing happens until a test says so. Options are the environment's, too.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import widetable as wt
from tests.conformance import PASSED, load_cases, run_case
from tests.object_stores import azurite, gcs_servers
from tests.object_stores.azurite import NEEDS_AZURITE
from tests.object_stores.faulty_proxy import Fault, FaultyProxy, faulty_proxy
from tests.object_stores.gcs_servers import NEEDS_FAKE_GCS, NEEDS_TESTBENCH
from tests.object_stores.gcs_stand_in import gcs_stand_in
from tests.object_stores.s3_server import BUCKET
from tests.object_stores.test_tables import (
    COLUMNS,
    OPTIONS,
    VECTORS,
    check_all_commits_are_in,
    check_what_killed_writers_said,
    create,
    run_of_operations,
    writers,
)
from tests.support.contracts.storage_contract import winners_of
from widetable.commit.notes.lease import try_lease
from widetable.errors import InvalidError, NotFoundError, UnsupportedError
from widetable.storage.file_io import FileIO
from widetable.storage.locate import locate
from widetable.storage.paths import TablePaths
from widetable.storage.remote import store_client
from widetable.storage.remote.storage_options import FILE_VARIABLE, checked_storage_options

_IN_PARTS = 8 << 20


class Store(NamedTuple):
    """place: a directory that nobody else has."""

    name: str
    place: str
    options: dict[str, str]
    proxy: FaultyProxy

    @property
    def file_io(self) -> FileIO:
        return locate(self.place, options=checked_storage_options(self.options))[0]


_SERVERS = [
    pytest.param("fake-gcs-server", marks=NEEDS_FAKE_GCS),
    pytest.param("storage-testbench", marks=NEEDS_TESTBENCH),
    pytest.param("azurite", marks=NEEDS_AZURITE),
]
# What long tests of the server behind the stand-in show, those of S3 show.
on_servers = pytest.mark.parametrize("store", _SERVERS, indirect=True)


@pytest.fixture(params=["stand-in", *_SERVERS])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    monkeypatch.setattr(store_client, "_CLIENTS", {})
    monkeypatch.setattr(store_client, "_USERS", {})
    name = request.param
    with contextlib.ExitStack() as stack:
        if name == "azurite":
            root, behind = azurite.ROOT, stack.enter_context(azurite.azurite())
        elif name == "stand-in":
            server = request.getfixturevalue("server")
            root, behind = f"gs://{BUCKET}", stack.enter_context(gcs_stand_in(server))
        else:
            emulator = gcs_servers.gcs_testbench if "bench" in name else gcs_servers.fake_gcs
            root, behind = f"gs://{BUCKET}", stack.enter_context(emulator())
        proxy = stack.enter_context(faulty_proxy(behind))
        if name == "azurite":
            options = azurite.options(proxy.server_port)
        else:
            options = gcs_servers.options(tmp_path, proxy.server_port)
        file = tmp_path / "storage.json"
        file.write_text(json.dumps(options))
        monkeypatch.setenv(FILE_VARIABLE, str(file))
        yield Store(name, f"{root}/{uuid.uuid4().hex}", options, proxy)


def test_operations_give_what_they_give_on_a_disk(store: Store, tmp_path: Path) -> None:
    found = []
    for warehouse, options in ((store.place, store.options), (str(tmp_path / "wh"), None)):
        catalog = wt.Catalog(warehouse, storage_options=options)
        table = catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=OPTIONS)
        found.append(run_of_operations(pickle.loads(pickle.dumps(table))))
        catalog.drop_table("db.t")
        assert catalog.list_tables() == []
    assert found[0] == found[1]


def test_one_of_many_publishes_and_takes_over(store: Store) -> None:
    file_io, path = store.file_io, f"{store.place}/deep/snapshot-1"
    assert file_io.publish(f"{store.place}/first", b"")
    assert winners_of(lambda data: file_io.publish(path, data)) == [file_io.read(path)]
    file_io.replace(path, b"over")
    taken = winners_of(lambda data: file_io.replace_if(path, b"over", data))
    assert taken == [file_io.read(path)]


@pytest.mark.parametrize("size", [0, 10, (1 << 20) + 1, 20_000_000])
def test_streams(store: Store, size: int, rng: random.Random) -> None:
    if size > _IN_PARTS and store.name in ("fake-gcs-server", "storage-testbench"):
        pytest.skip(f"{store.name} has no uploads in parts")
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


@on_servers
def test_a_long_listing_is_whole(store: Store) -> None:
    file_io = store.file_io
    with ThreadPoolExecutor(16) as pool:
        paths = [f"{store.place}/many/{number:04}" for number in range(1_050)]
        [*pool.map(lambda path: file_io.replace(path, b""), paths)]
    listed = [entry.name for entry in store.file_io.list(f"{store.place}/many")]
    assert listed == [f"{number:04}" for number in range(1_050)]
    store.file_io.delete_all([f"{store.place}/many/0000", f"{store.place}/many/none"])
    assert store.file_io.delete_dir(f"{store.place}/many")
    assert store.file_io.list(store.place) == []


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.BROKEN, Fault.LOST_ANSWER])
def test_a_put_on_condition_whose_answer_fails_is_ours_once(store: Store, fault: Fault) -> None:
    file_io, path = store.file_io, f"{store.place}/snapshot-1"
    assert file_io.publish(f"{store.place}/before", b"")
    if store.name != "azurite":  # Google's: too many writes of one key
        store.proxy.refusal = (429, b"<Error><Code>SlowDown</Code></Error>")
    left: list[Fault] = []
    store.proxy.plan = lambda method, path: left.pop() if method == "PUT" and left else None
    left[:] = [fault]
    assert file_io.publish(path, b"ours")
    assert not file_io.publish(path, b"theirs")
    left[:] = [fault]
    assert file_io.replace_if(path, b"ours", b"ours again")
    assert not file_io.replace_if(path, b"ours", b"theirs")
    assert file_io.read(path) == b"ours again"
    assert not left


def test_a_store_that_passes_conditions_over_is_refused(store: Store) -> None:
    if store.name == "azurite":
        pytest.skip("the proxy cannot leave out conditions that Azure's signature holds")
    store.proxy.plan = lambda method, path: Fault.LAX
    with pytest.raises(UnsupportedError, match="If-None-Match"):
        store.file_io.publish(f"{store.place}/snapshot-1", b"ours")
    assert store.file_io.list(store.place) == []


@on_servers
def test_one_of_many_has_a_lease_that_has_run_out(store: Store) -> None:
    file_io, paths = store.file_io, TablePaths(store.place)
    gone = b'{"owner": "gone", "expires_millis": 1, "process": null}'
    assert file_io.publish(paths.lease, gone)
    taken = winners_of(lambda owner: try_lease(file_io, paths, owner.decode(), 60_000) is not None)
    assert len(taken) == 1
    assert json.loads(file_io.read(paths.lease))["owner"] == taken[0].decode()


@on_servers
@pytest.mark.parametrize(
    "case", load_cases(VECTORS)[30::120], ids=lambda case: f"{case['area']}-{case['id']}"
)
def test_conformance(store: Store, case: dict[str, Any]) -> None:
    def warehouses() -> AbstractContextManager[str]:
        return contextlib.nullcontext(f"{store.place}/{uuid.uuid4().hex}")

    outcome = run_case(case, warehouses)
    assert outcome.verdict == PASSED, outcome.detail


@on_servers
def test_no_commit_of_many_writers_is_lost_or_doubled(store: Store, rng: random.Random) -> None:
    table = create(store.place)
    faults = [Fault.REFUSED, Fault.BROKEN, Fault.LOST_ANSWER, Fault.CUT, Fault.LATE]
    store.proxy.plan = lambda method, path: rng.choice(faults) if rng.random() < 1 / 15 else None
    with writers(table.path, 4, 3, {}) as started:
        ends = [each.communicate() for each in started]
        assert [each.returncode for each in started] == [0, 0, 0], ends
    store.proxy.plan = lambda method, path: None
    check_all_commits_are_in(table)


@on_servers
def test_what_killed_writers_said_is_there(store: Store, rng: random.Random) -> None:
    table = create(store.place)
    check_what_killed_writers_said(table, rng, {})
