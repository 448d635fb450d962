"""Copies chunks of a job's tables for a while, several at once, and commits each when it is read.

    plan, table by table in turn ─► run (threads, or tasks of Spark) ─► outcome ─► commit ─► state of the chunk
                     ▲                                                                 │
                     └──────────────── until `_WAVE_SECONDS` are over ◄────────────────┘

    files                 committed; those of a table that was opened anew meanwhile are deleted
    None                  the snapshot did not count: the table waits for the next wave
    ConflictError         the table was altered: it is copied anew with the columns that it has now
    NotFoundError         the table is gone: the job finds out when it looks for tables
    other errors          raised, when the other chunks have ended

No round is applied meanwhile. One thread uses it. Raises what tasks and commits raise.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from widetable import ConflictError, NotFoundError, WidetableError
from widetable_cdc.applying.chunk_files import ChunkFiles
from widetable_cdc.jobs.captured_table import CapturedTable
from widetable_cdc.jobs.captured_tables import CapturedTables
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.jobs.source_link import SourceLink
from widetable_cdc.running.chunk_task import ChunkOutcome, ChunkTask, next_task
from widetable_cdc.running.chunk_threads import RunChunks
from widetable_cdc.running.copy_progress import CopyProgress

_log = logging.getLogger("widetable")
# Changes wait that long for chunks, and for those that run then.
_WAVE_SECONDS: Final = 5.0


class ChunkCopier:
    """Copies the tables of one job. run: carries tasks out. rows, bytes, chunks: what was copied since it was made."""

    def __init__(self, config: SyncConfig, run: RunChunks) -> None:
        self._config = config
        self._run = run
        self._begun: Counter[int] = Counter()
        self._progress: dict[int, CopyProgress] = {}
        self.rows = self.bytes = self.chunks = 0

    def copy(self, link: SourceLink, tables: CapturedTables, stop: threading.Event) -> bool:
        """Copy chunks until there are none, the time is over, or `stop`; return whether something was done."""
        wave = _Wave(link, tables, time.monotonic() + _WAVE_SECONDS)
        has_moved = False
        failure: BaseException | None = None
        # All that run are waited for, so that none writes behind the end of this.
        for task, outcome in self._run(self._tasks(wave, stop)):
            table = wave.running.pop(task.key)
            try:
                if tables.is_open(table):
                    has_moved |= self._carry_out(wave, table, task, outcome)
                elif isinstance(outcome, ChunkFiles):
                    table.target.table.discard(outcome.messages)
            except BaseException as error:  # noqa: BLE001
                failure = failure or error
                wave.is_over = True
        if failure is not None:
            raise failure
        return has_moved

    def _tasks(self, wave: _Wave, stop: threading.Event) -> Iterator[ChunkTask]:
        """Plan tasks: the next one of the table that has had the fewest."""
        while not (stop.is_set() or wave.is_over or time.monotonic() > wave.ends):
            tables = wave.tables.to_copy(wave.link.position)
            for table in sorted(tables, key=lambda each: self._begun[each.source.oid]):
                oid = table.source.oid
                reading = {chunk for relation, chunk in wave.running if relation == oid}
                task = (
                    None
                    if oid in wave.waits
                    else next_task(table, self._config, wave.tables.database, reading)
                )
                if task is not None:
                    break
            else:
                return
            self._begun[oid] += 1
            self._progress.setdefault(oid, CopyProgress(time.monotonic()))
            wave.running[task.key] = table
            yield task

    def _carry_out(
        self, wave: _Wave, table: CapturedTable, task: ChunkTask, outcome: ChunkOutcome
    ) -> bool:
        """Do what an outcome asks for; return whether something was done."""
        if isinstance(outcome, ChunkFiles):
            self._commit(wave, table, task, outcome)
            return True
        wave.waits.add(table.source.oid)
        if isinstance(outcome, ConflictError):
            wave.tables.altered(wave.link, table)
            return True
        if isinstance(outcome, WidetableError) and not isinstance(outcome, NotFoundError):
            raise outcome
        return False

    def _commit(
        self, wave: _Wave, table: CapturedTable, task: ChunkTask, files: ChunkFiles
    ) -> None:
        state = table.commit_chunk(task.chunk.chunk, files)
        wave.tables.chunks.save([state])
        self.rows += files.rows
        self.bytes += files.bytes
        self.chunks += 1
        assert table.plan is not None, "a table that is copied has a plan"
        chunks, left = len(table.plan.states), len(table.plan.to_read())
        progress = self._progress[table.source.oid]
        progress.add(files.rows, files.bytes)
        text = progress.text(chunks - left, chunks, time.monotonic())
        _log.info("%s: %s is copied: %s", self._config.name, table.state.relation, text)
        if not left:
            del self._progress[table.source.oid]  # a later copy counts anew


class _Wave:
    """Chunks that are copied between two rounds. ends: when none is begun any more. running: the tables of tasks, by
    relation and chunk. waits: relations of which none is begun any more. is_over: one has failed.
    """

    def __init__(self, link: SourceLink, tables: CapturedTables, ends: float) -> None:
        self.link = link
        self.tables = tables
        self.ends = ends
        self.running: dict[tuple[int, int], CapturedTable] = {}
        self.waits: set[int] = set()
        self.is_over = False
