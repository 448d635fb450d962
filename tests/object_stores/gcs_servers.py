"""Google Cloud Storage on loopback: two emulators, each where it is installed, and what a table there is opened with.

    fake-gcs-server     `make object-stores` fetches it by Go; WIDETABLE_FAKE_GCS is its program
    storage-testbench   Google's own, in no registry of packages; WIDETABLE_GCS_TESTBENCH is the virtual environment
                        that has it (docs/object-stores.md)

Both refuse puts whose generation is not the object's. The testbench reads `x-goog-if-generation-match` as it is sent;
the other one takes no puts in XML (`gcs_bridge`).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Final

import pytest

from tests.object_stores.gcs_bridge import gcs_bridge
from tests.object_stores.s3_server import BUCKET, free_port
from tests.object_stores.translator import Asked, ask
from tests.support.faults.patience import wait_for

_FAKE: Final = Path(os.environ.get("WIDETABLE_FAKE_GCS", "/none"))
_TESTBENCH: Final = Path(os.environ.get("WIDETABLE_GCS_TESTBENCH", "/none")) / "bin" / "gunicorn"
NEEDS_FAKE_GCS: Final = pytest.mark.skipif(
    not _FAKE.exists(), reason="no fake-gcs-server in WIDETABLE_FAKE_GCS: make object-stores"
)
NEEDS_TESTBENCH: Final = pytest.mark.skipif(
    not _TESTBENCH.exists(), reason="no storage-testbench in WIDETABLE_GCS_TESTBENCH"
)


@contextlib.contextmanager
def fake_gcs() -> Iterator[int]:
    """The port of a bridge to it, while it runs; with BUCKET, in memory."""
    with fake_gcs_itself() as port, gcs_bridge(port, takes_xml_puts=False) as found:
        yield found


@contextlib.contextmanager
def fake_gcs_itself() -> Iterator[int]:
    """Its own port: it takes JSON."""
    port = free_port()
    command = [str(_FAKE), "-backend", "memory", "-scheme", "http", "-log-level", "error"]
    command += ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    with _running(command, port):
        yield port


@contextlib.contextmanager
def gcs_testbench() -> Iterator[int]:
    """The same."""
    port = free_port()
    command = [str(_TESTBENCH), "--bind", f"127.0.0.1:{port}"]
    command += ["--worker-class", "gthread", "--threads", "10", "testbench:run()"]
    with _running(command, port), gcs_bridge(port, takes_xml_puts=True) as found:
        yield found


def options(folder: Path, port: int) -> dict[str, str]:
    """What a table there is opened with: of a service account that asks for no tokens."""
    path = folder / "account.json"
    names = ("client_email", "private_key", "private_key_id")
    path.write_text(json.dumps({"disable_oauth": True, **dict.fromkeys(names, "")}))
    return {
        "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
        "fs.gs.auth.service.account.json.keyfile": str(path),
        "gs.storage.root.url": f"http://127.0.0.1:{port}",
    }


@contextlib.contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(lambda: server.poll() is not None or _makes_bucket(port))
            assert server.poll() is None, f"{command[0]} ended with {server.returncode}"
            yield
        finally:
            server.terminate()  # gunicorn ends its workers


def _makes_bucket(port: int) -> bool:
    headers = {"content-type": "application/json"}
    body = json.dumps({"name": BUCKET}).encode()
    try:
        return ask(port, Asked("POST", "/storage/v1/b?project=p", headers, body)).status == 200
    except (OSError, HTTPException):
        time.sleep(0.1)
        return False
