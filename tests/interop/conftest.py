"""pypaimon as an independent reader: one process of .venv/interop answers for all tests."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.java.java_process import JavaProcess
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.models.plain_rows import row_texts

Reader = Callable[..., list[str]]
# pypaimon's options of its native engine.
NATIVE = dict.fromkeys(
    (
        "scan.native-plan.enabled",
        "read.native.enabled",
        "commit.native.enabled",
        "write.native.enabled",
    ),
    "true",
)


class PypaimonProcess:
    """client_server.py, asked one question at a time."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, str(Path(__file__).parent / "client_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )

    def ask(self, table: wt.Table, **how: Any) -> Any:
        """The rows about one table; fails the test when pypaimon refuses."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        path = Path(table._paths.shared_root)
        branch = "" if table.branch == "main" else f"$branch_{table.branch}"
        name = f"{path.parent.name.removesuffix('.db')}.{path.name}{branch}"
        request = {"warehouse": str(path.parent.parent), "table": name, **how}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer
        return answer["rows"]

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="session")
def pypaimon_process(interop_python: str) -> Iterator[PypaimonProcess]:
    process = PypaimonProcess(interop_python)
    yield process
    process.close()


@pytest.fixture
def pypaimon_rows(pypaimon_process: PypaimonProcess) -> Reader:
    """read(table, snapshot=, tag=, filter=, project=): the rows that pypaimon sees, as sorted texts."""

    def read(table: wt.Table, **how: Any) -> list[str]:
        return row_texts(pypaimon_process.ask(table, **how))

    return read


@pytest.fixture
def pypaimon_write(
    pypaimon_process: PypaimonProcess, tmp_path: Path
) -> Callable[[wt.Table, pa.Table], None]:
    """write(table, rows): one commit by pypaimon."""

    def write(table: wt.Table, rows: pa.Table) -> None:
        pypaimon_process.ask(table, write=_written(tmp_path, rows))

    return write


@pytest.fixture(scope="module")
def pypaimon_native_write(
    pypaimon_process: PypaimonProcess, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[wt.Table, pa.Table], None]:
    """The same by its native engine."""
    folder = tmp_path_factory.mktemp("native")

    def write(table: wt.Table, rows: pa.Table) -> None:
        pypaimon_process.ask(table, write=_written(folder, rows), options=NATIVE)

    return write


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaProcess]:
    """Paimon's Java, for all tables of a session."""
    process = JavaProcess(tmp_path_factory.mktemp("java"))
    yield process
    process.close()


def _written(folder: Path, rows: pa.Table) -> str:
    path = folder / "to-write.arrow"
    with pa.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows)
    return str(path)
