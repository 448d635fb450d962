"""Seal the footer of a data file with a checksum: Parquet has checksums for pages only, and Arrow ends the process at
some wrong bits of a footer.

On disk: never change. Key-value metadata of the footer, which other clients ignore:

    "widetable.footer-crc32" = 8 hexadecimal digits, the last of that name in the footer
    digits                   = CRC-32 (ISO-HDLC, as zlib) of the footer with "00000000" in their place
    footer                   = FileMetaData, of the length at the end of the file

Files of other clients and our own older files have no seal; a file with the newer note GROUP_BYTES must have one.
In: bytes, or an open file. Out: sealed bytes, or the state of the seal. Raises ValueError for a file that does not end
like a Parquet file, and the errors of the file.

How a seal is made and checked:

    writer    gives Arrow the metadata UNSEALED; Arrow's writer puts "00000000" into the footer
              `tail_buffer` holds the footer back until it is complete; `sealed` puts the digits there
    reader    `seal_of` reads the footer, puts "00000000" back, and compares

The digits have a fixed width, so nothing else in the footer moves: lengths and positions that
Arrow wrote stay valid, and no other client has to know. The seal is checked before Arrow
parses the footer, because parsing may end the process.
"""

from __future__ import annotations

import enum
import zlib
from typing import Final

import pyarrow as pa

from widetable.format.parquet_layout import GROUP_BYTES

_NAME: Final = b"widetable.footer-crc32"
_ZEROS: Final = b"00000000"
UNSEALED: Final = {_NAME.decode(): _ZEROS.decode()}
# The form of a KeyValue: field 1, a binary; field 2, a binary (`thrift_compact`). No data of a user has this form:
# names and statistics, which are texts, too, have other fields before or behind them.
_NOTE: Final = b"\x18%c%s\x18" % (len(GROUP_BYTES), GROUP_BYTES.encode())
_MARK: Final = b"\x18%c%s\x18%c" % (len(_NAME), _NAME, len(_ZEROS))
_END_BYTES: Final = 8
_MAGIC: Final = b"PAR1"


class Seal(enum.Enum):
    """The state of a footer.

    NONE: no checksum, so damage is possible. WHOLE: the bytes are those that were written.
    BROKEN: the checksum is wrong, or a required one is missing; the file must not be opened.
    """

    NONE = "none"
    WHOLE = "whole"
    BROKEN = "broken"


def sealed(tail: bytes) -> bytes:
    """Put the checksum into the end of a file, from its footer on, whose metadata holds UNSEALED.

    The result is as long as the tail. All changes of footer bytes, such as `int96.marked_tail`,
    must come before.
    """
    footer, end = tail[:-_END_BYTES], tail[-_END_BYTES:]
    at = footer.rindex(_MARK + _ZEROS) + len(_MARK)
    return footer[:at] + _digits(footer) + footer[at + len(_ZEROS) :] + end


def seal_of(source: pa.NativeFile) -> Seal:
    """Return the state of a file's footer.

    Two reads: the last 8 bytes, and the footer. A truncated file raises ValueError,
    which the caller's `mapped_errors` turns into a DamagedError.
    """
    size = source.size()
    end = source.read_at(min(size, _END_BYTES), max(0, size - _END_BYTES))
    footer_bytes = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or footer_bytes > size - _END_BYTES:
        raise ValueError("no Parquet footer at the end")
    return _seal(source.read_at(footer_bytes, size - _END_BYTES - footer_bytes))


def _seal(footer: bytes) -> Seal:
    # The last mark counts: a user's value in the statistics comes before the metadata. Without
    # any mark `at` is len(_MARK) - 1, which the next line tests.
    at = footer.rfind(_MARK) + len(_MARK)
    if at < len(_MARK):
        return Seal.BROKEN if _NOTE in footer else Seal.NONE
    digits, rest = footer[at : at + len(_ZEROS)], footer[at + len(_ZEROS) :]
    return Seal.WHOLE if digits == _digits(footer[:at] + _ZEROS + rest) else Seal.BROKEN


def _digits(footer: bytes) -> bytes:
    return b"%08x" % zlib.crc32(footer)
