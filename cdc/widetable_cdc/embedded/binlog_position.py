"""Positions in a binlog as numbers that grow, and what an offset of Debezium says of them.

    file mariadb-bin.000003, pos 154     3 * 2^32 + 154
    a row of the snapshot                1, 2, ... below 2^32, in the order of a table's commits

    {"file": "bin.000003", "pos": 154, "gtids": ".."}                        the engine begins at a transaction
    {"file": "bin.000003", "pos": 154, "event": 2, "row": 1, ..}             in a transaction
    {"file": "bin.000003", "pos": 154, "snapshot": "INITIAL", ..}            in the snapshot

An offset within a transaction counts events, and Debezium counts heartbeats among them. So a job begins again at an
offset that is at a transaction's begin, and leaves out what a table has already.

Pure. Raises DamagedError for an offset of another form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from widetable import DamagedError

FIRST_IN_LOG: Final = 1 << 32
_FILES: Final = 1 << 31


def binlog_position(file: str, pos: int) -> int:
    """Return a place in a binlog as a number. file: its name, which ends with the number of the file."""
    number = file.rpartition(".")[2]
    if not number.isascii() or not number.isdigit() or not 0 < int(number) < _FILES or pos < 0:
        raise _damaged(f"file {file!r}, pos {pos}")
    return int(number) * FIRST_IN_LOG + min(pos, FIRST_IN_LOG - 1)


def position_text(position: int) -> str:
    """Write a position for people: the numbers of the file and in it."""
    if position < FIRST_IN_LOG:
        return "the snapshot"
    return f"binlog {position // FIRST_IN_LOG}:{position % FIRST_IN_LOG}"


def offset_position(offset: str) -> int:
    """Return where the engine begins with an offset, which is JSON."""
    fields = _fields(offset)
    return binlog_position(str(fields.get("file")), int(fields.get("pos", -1)))


def is_in_snapshot(offset: str) -> bool:
    """Return whether the full copy was not complete at an offset."""
    return "snapshot" in _fields(offset)


def source_position(source: Mapping[str, Any]) -> int:
    """Return the position of a change, of the field `source` of its record."""
    return binlog_position(str(source.get("file")), int(source.get("pos", -1)))


def _fields(offset: str) -> dict[str, Any]:
    try:
        fields = json.loads(offset)
    except ValueError as cause:
        raise _damaged(offset[:100]) from cause
    if not isinstance(fields, dict):
        raise _damaged(offset[:100])
    return fields


def _damaged(text: str) -> DamagedError:
    return DamagedError(
        "offset of Debezium",
        found=text,
        expected="a file whose name ends with its number, and a position in it",
        action="Give the job another name: it copies the tables again.",
    )
