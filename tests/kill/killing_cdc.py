"""A job of change data capture that kills its own process (SIGKILL, no clean-up) at a named step.

A step is a function of the job's rooms that makes something durable, or reads a chunk. The process dies before or after
the call of that number. `chunk rows` is the stream of a chunk: it dies before the first batch, or after the last one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final

from tests.kill.killing_file_io import kill_now
from tests.support.faults.forked import in_a_child
from widetable.storage.local import LocalFileIO
from widetable_cdc import Sync, SyncConfig
from widetable_cdc.applying.target import BarrierTarget, PlainTarget
from widetable_cdc.jobs import evolved_table, target_table
from widetable_cdc.jobs.captured_table import CapturedTable
from widetable_cdc.jobs.chunk_store import ChunkStore
from widetable_cdc.jobs.evolved_table import Evolution
from widetable_cdc.jobs.followed_states import FollowedStates
from widetable_cdc.running import chunk_task
from widetable_cdc.source import chunk_rows
from widetable_cdc.source.chunk_range import ChunkRange
from widetable_cdc.source.publication import Publication
from widetable_cdc.source.slot import Slot
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.transport import PeekTransport

STEPS: Final[dict[str, tuple[Any, str]]] = {
    "publication": (Publication, "ensure"),
    "slot": (Slot, "create"),
    "target": (target_table, "make_target"),
    "plan saved": (ChunkStore, "plan"),
    "chunk states": (ChunkStore, "save"),
    "table state": (FollowedStates, "save"),
    "chunk read": (chunk_task, "read_chunk"),
    "chunk rows": (CapturedTable, "typed"),
    "chunk committed": (BarrierTarget, "commit_chunk"),
    "group's chunk committed": (PlainTarget, "commit_chunk"),
    "table altered": (evolved_table, "alter_target"),
    "rows filled": (Evolution, "_fill"),
    "round committed": (BarrierTarget, "apply"),
    "group's round committed": (PlainTarget, "apply"),
    "confirmed": (PeekTransport, "confirm"),
    "copy ended": (CapturedTable, "end_copy"),
    "chunk states dropped": (ChunkStore, "drop"),
    "barrier passed": (BarrierTarget, "complete"),
    "file published": (LocalFileIO, "publish"),
}


@dataclass(frozen=True)
class KillPoint:
    """Where a job dies: before or after the call of a step, of which `call` come first."""

    step: str
    is_after: bool
    call: int = 0

    def __str__(self) -> str:
        return f"{'after' if self.is_after else 'before'} {self.step} {self.call}"


def job_ends(config: SyncConfig, reads: Path, point: KillPoint | None) -> int:
    """Run a job in a forked process until it has what the source has now; return its exit code, -9 for a kill.

    reads: gets a line for each chunk that the job reads: the name of the table and the bounds.
    """

    def work() -> None:
        _note_reads(reads)
        if point is not None:
            _arm(point)
        Sync(config).run("caught-up")

    _, status = os.waitpid(in_a_child(work), 0)
    return os.waitstatus_to_exitcode(status)


def chunk_line(table: str, low: int | None, high: int | None) -> str:
    """Return what stands for a chunk in the list of reads."""
    return f"{table} {low} {high}"


def _note_reads(reads: Path) -> None:
    original = chunk_rows.read_chunk

    def read(
        dsn: str, name: str, table: SourceTable, select: Any, key_range: ChunkRange, *rest: Any
    ) -> Any:
        with reads.open("a") as file:
            file.write(chunk_line(table.name, key_range.low, key_range.high) + "\n")
        return original(dsn, name, table, select, key_range, *rest)

    vars(chunk_task)["read_chunk"] = read


def _arm(point: KillPoint) -> None:
    owner, name = STEPS[point.step]
    left = point.call
    original: Callable[..., Any] = getattr(owner, name)

    def is_reached() -> bool:
        nonlocal left
        left -= 1
        return left == -1

    @wraps(original)
    def dying(*arguments: Any, **named: Any) -> Any:
        dies = is_reached()
        if dies and not point.is_after:
            kill_now()
        result = original(*arguments, **named)
        if dies:
            kill_now()
        return result

    @wraps(original)
    def dying_stream(*arguments: Any, **named: Any) -> Iterator[Any]:
        dies = is_reached()
        if dies and not point.is_after:
            kill_now()
        yield from original(*arguments, **named)
        if dies:
            kill_now()

    setattr(owner, name, dying_stream if point.step == "chunk rows" else dying)
