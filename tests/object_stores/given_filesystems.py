"""File systems that users hand in, each before a store on loopback: s3fs before moto, gcsfs and adlfs before emulators.

A proxy stands between, in which nothing happens until a test says so.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import adlfs
import gcsfs
import pytest
import s3fs
from pyarrow import fs

from tests.object_stores import azurite, gcs_servers
from tests.object_stores.azurite import NEEDS_AZURITE
from tests.object_stores.faulty_proxy import FaultyProxy, faulty_proxy
from tests.object_stores.gcs_servers import NEEDS_FAKE_GCS
from tests.object_stores.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY
from widetable.storage.file_io import FileIO
from widetable.storage.given_storage import given_storage

PARAMETERS = [
    "s3fs",
    pytest.param("gcsfs", marks=NEEDS_FAKE_GCS),
    pytest.param("adlfs", marks=NEEDS_AZURITE),
]


class Given(NamedTuple):
    """filesystem: as a user makes it. place: a directory that nobody else has, as it names it, without a scheme."""

    name: str
    filesystem: Any
    place: str
    proxy: FaultyProxy

    @property
    def file_io(self) -> FileIO:
        return given_storage(self.filesystem, None).at(self.place)[0]

    @property
    def url(self) -> str:
        """The place, as tables name it."""
        return given_storage(self.filesystem, None).at(self.place)[1]


@contextlib.contextmanager
def given_filesystem(name: str, moto: Callable[[], int]) -> Iterator[Given]:
    """moto: the port of the server, which is started by being asked for."""
    with contextlib.ExitStack() as stack:
        if name == "adlfs":
            bucket, behind = azurite.CONTAINER, stack.enter_context(azurite.azurite())
        elif name == "gcsfs":
            bucket, behind = BUCKET, stack.enter_context(gcs_servers.fake_gcs_itself())
        else:
            bucket, behind = BUCKET, moto()
        proxy = stack.enter_context(faulty_proxy(behind))
        made = _MADE[name](proxy.server_port)
        yield Given(name, made, f"{bucket}/{uuid.uuid4().hex}", proxy)


def s3(port: int, **more: Any) -> Any:
    """Of s3fs. Its retries wait for nothing."""
    client = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}
    config = {"read_timeout": 30, "retries": {"max_attempts": 0}}
    return s3fs.S3FileSystem(
        key=ACCESS_KEY, secret=SECRET_KEY, client_kwargs=client, config_kwargs=config, **more
    )


def of_arrow(name: str, port: int) -> Any:
    """Of pyarrow, for the same store."""
    address = f"127.0.0.1:{port}"
    if name == "adlfs":
        return fs.AzureFileSystem(
            account_name=azurite.ACCOUNT,
            account_key=azurite.ACCOUNT_KEY,
            blob_storage_authority=address,
            dfs_storage_authority=address,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )
    return fs.S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        endpoint_override=f"http://{address}",
        region="us-east-1",
    )


def _gcs(port: int) -> Any:
    """Not the extended one, which asks for the kind of the bucket by gRPC with TLS, in vain here."""
    return gcsfs.core.GCSFileSystem(
        endpoint_url=f"http://127.0.0.1:{port}", token="anon", project="p"
    )


def _azure(port: int) -> Any:
    parts = {
        "DefaultEndpointsProtocol": "http",
        "AccountName": azurite.ACCOUNT,
        "AccountKey": azurite.ACCOUNT_KEY,
        "BlobEndpoint": f"http://127.0.0.1:{port}/{azurite.ACCOUNT}",
    }
    text = ";".join(f"{name}={value}" for name, value in parts.items())
    return adlfs.AzureBlobFileSystem(connection_string=text)


_MADE: dict[str, Callable[[int], Any]] = {"s3fs": s3, "gcsfs": _gcs, "adlfs": _azure}
