"""pypaimon in scenarios, by its native engine: one process, which starts when it is asked for first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import widetable as wt
from tests.interop.conftest import NATIVE, PypaimonProcess
from tests.pairs.reading import Request


class PypaimonClient(contextlib.AbstractContextManager["PypaimonClient"]):
    """python: gives the interpreter that has it. folder: for the rows that it is given."""

    def __init__(self, python: Callable[[], str], folder: Path) -> None:
        self._python = python
        self._folder = folder
        self._process: PypaimonProcess | None = None

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.close()

    def _started(self) -> PypaimonProcess:
        if self._process is None:
            self._process = PypaimonProcess(self._python())
        return self._process

    def write(self, table: wt.Table, rows: pa.Table) -> None:
        """One commit of rows with all columns."""
        file = self._folder / "rows.arrow"
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        self._started().ask(table, write=str(file), options=NATIVE)

    def read(self, request: Request) -> list[dict[str, Any]]:
        table = wt.Table.open(request.path, branch=request.branch)
        rows: list[dict[str, Any]] = self._started().ask(table, options=NATIVE, exact=True)
        return rows
