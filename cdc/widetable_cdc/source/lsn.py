"""Positions in the write-ahead log: `16/B374D848` and the integer 0x16B374D848. Pure.

Integers come out ascending along the log, and fit in int64 as identifiers of commits do. `lsn_of` raises InvalidError.
"""

from __future__ import annotations

import re
from typing import Final

from widetable import InvalidError

_TEXT: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


def lsn_of(text: str) -> int:
    """Return the position that a text of the type pg_lsn names."""
    parts = _TEXT.fullmatch(text)
    if parts is None:
        raise InvalidError(
            "a position in the log",
            found=repr(text),
            expected="two hexadecimal numbers, such as 16/B374D848",
            action="Give the position as PostgreSQL prints it.",
        )
    return int(parts[1], 16) << 32 | int(parts[2], 16)


def lsn_text(lsn: int) -> str:
    """Return the position as PostgreSQL prints it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
