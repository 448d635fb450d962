"""Azure Blob on loopback: Microsoft's emulator Azurite, where it is installed (`make object-stores`)."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

import pytest

from tests.object_stores.s3_server import free_port
from tests.support.faults.patience import wait_for

CONTAINER: Final = "container"
ACCOUNT: Final = "devstoreaccount1"
# The emulator's own, which its documentation tells everybody.
ACCOUNT_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
ROOT: Final = f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net"
_FOLDER: Final = Path(os.environ.get("WIDETABLE_AZURITE", "/none"))
_PROGRAM: Final = _FOLDER / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
NEEDS_AZURITE: Final = pytest.mark.skipif(
    not _PROGRAM.exists(), reason="no Azurite in WIDETABLE_AZURITE: make object-stores"
)


@contextlib.contextmanager
def azurite() -> Iterator[int]:
    """The port, while it runs, with one container; nothing is written to the disk."""
    port = free_port()
    command = ["node", str(_PROGRAM), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(lambda: server.poll() is not None or _makes_container(port))
            assert server.poll() is None, f"Azurite ended with {server.returncode}"
            yield port
        finally:
            server.kill()


def options(port: int) -> dict[str, str]:
    """What a table there is opened with."""
    return {
        f"fs.azure.account.key.{ACCOUNT}.blob.core.windows.net": ACCOUNT_KEY,
        "azure.endpoint": f"http://127.0.0.1:{port}/{ACCOUNT}",
    }


def _makes_container(port: int) -> bool:
    date = datetime.now(timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    path = f"/{ACCOUNT}/{CONTAINER}"
    signed = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:2021-08-06\n/{ACCOUNT}{path}"
    signed += "\nrestype:container"
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": "2021-08-06",
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
    }
    try:
        with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request("PUT", f"{path}?restype=container", headers=headers)
            return connection.getresponse().status == 201
    except (OSError, HTTPException):
        time.sleep(0.1)
        return False
