"""A standby of a PostgreSQL server of tests: a base backup that follows its primary and answers questions. With a
physical slot it synchronises logical slots, when it is asked to (`pg_sync_replication_slots`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.databases.postgres_server import NOBODY, PostgresServer, _free_port


@contextmanager
def standby_of(primary: PostgresServer, slot: str | None = None) -> Iterator[PostgresServer]:
    """Make a standby, start it, and stop and remove it at the end. slot: of the primary, which is made."""
    root = Path(tempfile.mkdtemp(prefix="widetable-standby-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(root, NOBODY)
    try:
        server = _Standby(primary, root, slot)
        server.start()
        try:
            yield server
        finally:
            server.crash()
    finally:
        shutil.rmtree(root, ignore_errors=True)


class _Standby(PostgresServer):
    def __init__(self, primary: PostgresServer, root: Path, slot: str | None) -> None:
        self.port = _free_port()
        self._data, self._log = root / "data", root / "log"
        self._user = primary._user
        self._bin = primary._bin
        source = f"host=127.0.0.1 port={primary.port} user=postgres"
        arguments = ["-R", "-cfast", "--no-sync", f"-d{source} dbname=postgres"]
        if slot is not None:
            arguments += ["--create-slot", f"--slot={slot}"]
        self._run("pg_basebackup", f"--pgdata={self._data}", *arguments)
        with (self._data / "postgresql.conf").open("a") as conf:
            conf.write(f"port = {self.port}\nhot_standby = on\nhot_standby_feedback = on\n")
