"""A proxy in front of the S3 server for each test, and a place in its bucket."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.object_stores.faulty_proxy import FaultyProxy, faulty_proxy
from tests.object_stores.given_filesystems import PARAMETERS, Given, given_filesystem
from tests.object_stores.s3_server import BUCKET, environment
from widetable.storage.remote import store_client
from widetable.storage.remote.object_store import ObjectStoreFileIO

ROOT = f"s3://{BUCKET}"


@pytest.fixture
def proxy(server: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """In front of the server, and nothing happens yet; clients are new."""
    with faulty_proxy(server) as found:
        for name, value in environment(found.server_port).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(store_client, "_CLIENTS", {})
        monkeypatch.setattr(store_client, "_USERS", {})
        yield found


@pytest.fixture
def file_io(proxy: FaultyProxy) -> ObjectStoreFileIO:
    return ObjectStoreFileIO(ROOT)


@pytest.fixture
def place() -> str:
    """A directory that nobody else has."""
    return f"{ROOT}/{uuid.uuid4().hex}"


@pytest.fixture(params=PARAMETERS)
def given(request: pytest.FixtureRequest) -> Iterator[Given]:
    with given_filesystem(request.param, lambda: request.getfixturevalue("server")) as found:
        yield found


@pytest.fixture
def s3(server: int) -> Iterator[Given]:
    with given_filesystem("s3fs", lambda: server) as found:
        yield found
