"""The footer of a data file, sealed with a checksum: Parquet has one for pages only, and Arrow ends the process at some
wrong bits of a footer.

On disk: never change. Key-value metadata of the footer, which other clients pass over:

    "widetable.footer-crc32" = 8 hexadecimal digits, the last of that name in the footer
    digits                   = CRC-32 (ISO-HDLC, as zlib) of the footer with "00000000" in their place
    footer                   = FileMetaData, that which the length at the end of the file counts

Files of other clients have no seal, nor have ours of before it; one that has another note of today's must have it.
In: bytes, or an open file. Out: sealed bytes, or what the seal says. Raises ValueError for a file that does not end as
a Parquet file, and what the file raises.

How a seal comes to be, and why so:

    writer    gives Arrow the metadata UNSEALED; Arrow's writer puts "00000000" into the footer
              `held_tail` holds the footer back until it is whole; `sealed` puts the digits there
    reader    `seal_of` reads the footer, puts "00000000" back, and compares

The digits have a fixed width, so nothing else in the footer moves: lengths and positions that
Arrow wrote stay right, and no other client has to know. The seal is looked at before Arrow
parses the footer, as parsing is what ends the process.
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
# As a KeyValue has them: field 1, a binary; field 2, a binary (`thrift_compact`). So nothing of a user looks like that:
# of names and statistics that are texts too, others come before or after.
_NOTE: Final = b"\x18%c%s\x18" % (len(GROUP_BYTES), GROUP_BYTES.encode())
_MARK: Final = b"\x18%c%s\x18%c" % (len(_NAME), _NAME, len(_ZEROS))
_END_BYTES: Final = 8
_MAGIC: Final = b"PAR1"


class Seal(enum.Enum):
    """What is known of a footer.

    NONE: no checksum, so nothing is known. WHOLE: the bytes are those that were written.
    BROKEN: a checksum that is wrong, or none where there must be one; the file is not to be
    opened.
    """

    NONE = "none"
    WHOLE = "whole"
    BROKEN = "broken"


def sealed(tail: bytes) -> bytes:
    """The end of a file, from its footer on, whose metadata holds UNSEALED, with the checksum in it.

    The result is as long as the tail. Anything that changes footer bytes, as
    `int96.marked_tail` does, must come before.
    """
    footer, end = tail[:-_END_BYTES], tail[-_END_BYTES:]
    at = footer.rindex(_MARK + _ZEROS) + len(_MARK)
    return footer[:at] + _digits(footer) + footer[at + len(_ZEROS) :] + end


def seal_of(source: pa.NativeFile) -> Seal:
    """Reads the footer only.

    Two reads: the last 8 bytes, and the footer. A file that was cut off raises ValueError,
    which the caller's `mapped_errors` makes a DamagedError.
    """
    size = source.size()
    end = source.read_at(min(size, _END_BYTES), max(0, size - _END_BYTES))
    footer_bytes = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or footer_bytes > size - _END_BYTES:
        raise ValueError("no Parquet footer at the end")
    return _seal(source.read_at(footer_bytes, size - _END_BYTES - footer_bytes))


def _seal(footer: bytes) -> Seal:
    # The last one: a value of the user's in the statistics stands before the metadata. Without
    # any mark `at` is len(_MARK) - 1, which the next line asks for.
    at = footer.rfind(_MARK) + len(_MARK)
    if at < len(_MARK):
        return Seal.BROKEN if _NOTE in footer else Seal.NONE
    found, rest = footer[at : at + len(_ZEROS)], footer[at + len(_ZEROS) :]
    return Seal.WHOLE if found == _digits(footer[:at] + _ZEROS + rest) else Seal.BROKEN


def _digits(footer: bytes) -> bytes:
    return b"%08x" % zlib.crc32(footer)
