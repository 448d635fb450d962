"""A program that writes to a table with postponed buckets and compacts it, step by step. Started again it repeats the
writes that are not in the table, and compacts.

postponed_program.py TABLE CALL     CALL: which of its writes to the storage it does not live to see, -1 for none
"""

from __future__ import annotations

import sys
from typing import Final

import widetable as wt
from tests.kill.killing_file_io import DiesAtWrite
from widetable.storage.local import LocalFileIO

USER: Final = "program"
WRITES: Final = 4


def rows(number: int) -> list[dict[str, object]]:
    """Keys that come again, so that the order of commits decides."""
    return [{"p": k % 2, "k": k, "v": f"v{number}"} for k in range(number, number + 4)]


def visible(writes: int) -> dict[int, str]:
    """What is seen when so many writes are placed."""
    return {int(str(row["k"])): str(row["v"]) for n in range(writes) for row in rows(n)}


def main() -> None:
    path, call = sys.argv[1], int(sys.argv[2])
    files = DiesAtWrite(call) if call >= 0 else LocalFileIO(fsync=False)
    table = wt.Table.open(path, file_io=files)
    for number in range(WRITES):
        if table.find_commit(USER, number) is None:
            table.write(rows(number), USER, number)
        if number % 2:
            table.compact()
    table.compact(full=True)
