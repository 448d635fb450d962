"""One HDFS for the tests of a process, and a place in it for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.hdfs.hdfs_server import hdfs_server
from widetable.storage.remote.hdfs import HdfsFileIO


@pytest.fixture(scope="session")
def root(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert java_home
    with hdfs_server(tmp_path_factory.mktemp("hdfs")) as found:
        yield found


@pytest.fixture
def file_io(root: str) -> HdfsFileIO:
    return HdfsFileIO(root)


@pytest.fixture
def place(root: str) -> str:
    """A directory that nobody else has."""
    return f"{root}/{uuid.uuid4().hex}"
