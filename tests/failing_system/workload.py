"""What a process does to a table while the system fails: writes, compacts, expires, cleans, reads; its answers.

Its log is JSON lines: a step, and `done` (what it returned) or `error` (one of the package's) or `raw` (another error,
which is a finding). A write that fails is tried again at once, as often as TRIES says; then its user stops.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import widetable as wt
from tests.kill.workload import batch, expected_rows, table_options, table_schema

SEED: Final = 11
WRITERS: Final = 2
# Of each writer: batches that are in the table from the start, and what the process is to write.
FIRST, BATCHES = 2, 4
TRIES: Final = 2
OPTIONS: Final = {"num-sorted-run.compaction-trigger": "3", "manifest.merge-min-count": "4"}


def user(writer: int) -> str:
    return f"writer-{writer}"


def path_of(folder: Path) -> str:
    return f"{folder}/wh/db.db/t"


def create(folder: Path) -> wt.Table:
    """A table with some history."""
    table = wt.Catalog(f"{folder}/wh").create_table(
        "db.t", table_schema(), primary_key=["k"], options=table_options() | OPTIONS
    )
    for number in range(FIRST):
        for writer in range(WRITERS):
            table.write(batch(SEED, writer, number), user(writer), number)
    table.wait_for_compactions()
    return table


class Work:
    """log: where to note what happened; it is on the disk before the next step begins."""

    def __init__(self, folder: Path, log: Path) -> None:
        self._folder = folder
        self._log = log
        self._stopped: set[int] = set()

    def run(self) -> None:
        """All steps, whatever happened in those before."""
        for number in range(FIRST, BATCHES):
            for writer in range(WRITERS):
                self._write(writer, number)
            if number == FIRST:
                self._step("compact", lambda table: table.compact(full=True).committed)
                self._step("expire", self._expire)
            if number == FIRST + 1:
                self._step("tag", lambda table: table.create_tag("kept"))
                self._step("maintain", lambda table: table.maintain(once=True).failures)
            self._step("scan", lambda table: table.scan(columns=["k"]).to_arrow().num_rows)
        self._step("lookup", lambda table: table.lookup([1, 2, 1000]).num_rows)
        self._step("changes", self._changes)
        self._step("wait", lambda table: table.wait_for_compactions())
        self._step("clean", lambda table: len(table.remove_orphan_files(0).paths))
        self._step("audit", lambda table: table.audit().ok)

    def _write(self, writer: int, number: int) -> None:
        if writer in self._stopped:
            return
        rows = batch(SEED, writer, number)

        def write(table: wt.Table) -> bool:
            return table.write(rows, user(writer), number).committed

        for _ in range(TRIES):
            if self._step(f"write {writer} {number}", write):
                return
        self._stopped.add(writer)

    @staticmethod
    def _expire(table: wt.Table) -> list[int]:
        """Only what was there before the process, so that it can be counted what it wrote."""
        return list(table.expire_snapshots(1, None, 0, limit=2).ids)

    @staticmethod
    def _changes(table: wt.Table) -> int:
        last = table.snapshots()[-1].id
        return len(table.changes(last - 2, last))

    def _step(self, name: str, act: Callable[[wt.Table], Any]) -> bool:
        self._note({"step": name})
        try:
            done = act(wt.Table.open(path_of(self._folder)))
        except wt.WidetableError as error:
            self._note({"step": name, "error": type(error).__name__, "text": str(error)})
            return False
        except BaseException as error:  # noqa: BLE001 -- it is what is looked for
            self._note({"step": name, "raw": repr(error), "text": traceback.format_exc()})
            return False
        self._note({"step": name, "done": done})
        return True

    def _note(self, entry: dict[str, Any]) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(entry) + "\n")


def expected() -> dict[int, dict[str, Any]]:
    """The rows when every batch is in."""
    return expected_rows(SEED, dict.fromkeys(range(WRITERS), BATCHES))
