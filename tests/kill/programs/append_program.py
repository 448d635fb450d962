"""A program that does all that happens to an append table, step by step. Started again it repeats the steps that
are not in the table.

append_program.py TABLE CALL     CALL: which of its writes to the storage it does not live to see, -1 for none
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import widetable as wt
from tests.kill.killing_file_io import DiesAtWrite
from widetable import Table
from widetable.storage.local import LocalFileIO

Rows = dict[int, str]
Step = tuple[Callable[[Table, int], object], Callable[[Rows], Rows]]
USER: Final = "program"


def _write(number: int) -> Step:
    rows = {number * 10 + at: f"text {at}" for at in range(6)}
    given = [{"p": n % 2, "n": n, "s": text} for n, text in rows.items()]
    return lambda table, id: table.write(given, USER, id), lambda before: before | rows


def _delete(number: int) -> Step:
    return (
        lambda table, id: table.delete(f"n = {number}", USER, id),
        lambda before: {n: text for n, text in before.items() if n != number},
    )


def _update(number: int) -> Step:
    return (
        lambda table, id: table.update(f"n = {number}", {"s": "new"}, USER, id),
        lambda before: before | {number: "new"},
    )


def _same(do: Callable[[Table], object]) -> Step:
    return lambda table, _: do(table), lambda before: before


STEPS: Final[tuple[Step, ...]] = (
    _write(0),
    _write(1),
    _delete(3),
    _update(12),
    _same(lambda table: table.compact(full=True)),
    _write(2),
    _delete(11),
    _same(
        lambda table: (
            table.sort_compact(["n"]) if table.schema.has_free_rows else table.compact(full=True)
        )
    ),
    _update(21),
    _same(lambda table: table.expire_snapshots(1, 2, 0)),
    _write(3),
)


def states() -> list[Rows]:
    """What the table may have, after each step."""
    rows: Rows = {}
    every = [rows]
    for _, change in STEPS:
        rows = change(rows)
        every.append(rows)
    return every


def main() -> None:
    path, call = sys.argv[1], int(sys.argv[2])
    files = DiesAtWrite(call) if call >= 0 else LocalFileIO(fsync=False)
    table = wt.Table.open(path, file_io=files)
    committed = [n for n in range(len(STEPS)) if table.find_commit(USER, n) is not None]
    for identifier in range(max(committed, default=-1) + 1, len(STEPS)):
        STEPS[identifier][0](table, identifier)
