"""An S3 server on loopback: moto's, in a process of its own. It honours If-None-Match and If-Match as S3 does.

In: nothing. Out: its address; the environment says it to whoever opens `s3://` URLs. One bucket, `BUCKET`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from typing import Final

from tests.support.faults.patience import wait_for

BUCKET: Final = "bucket"
ACCESS_KEY: Final = "nobody-known"
SECRET_KEY: Final = "secret-of-nobody"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def environment(port: int) -> dict[str, str]:
    """What a process must be told to open the buckets of that server."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
    }


@contextlib.contextmanager
def s3_server() -> Iterator[int]:
    """The port, while the server runs."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)
    ) as server:
        try:
            wait_for(lambda: server.poll() is not None or _makes_bucket(port))
            assert server.poll() is None, f"moto ended with {server.returncode}"
            yield port
        finally:
            server.kill()


def _makes_bucket(port: int) -> bool:
    try:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("PUT", f"/{BUCKET}")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        time.sleep(0.1)
        return False
