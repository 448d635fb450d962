"""Recognizes CSV and JSON files that are not UTF-8 text by their first bytes, and refuses them with InvalidError."""

from __future__ import annotations

from typing import BinaryIO, Final

from widetable.errors import InvalidError

_UNPACK: Final = "Decompress it, for instance into a pipe to `widetable write TABLE -`."
_DECODE: Final = "Convert it, for example with `iconv -f ENCODING -t UTF-8`."
# The first bytes, the kind of file that begins with them, and the action.
_SIGNATURES: Final = (
    (b"\x1f\x8b", "a file compressed by gzip", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "a file compressed by zstd", _UNPACK),
    (b"BZh91AY", "a file compressed by bzip2", _UNPACK),
    (b"\xfd7zXZ\x00", "a file compressed by xz", _UNPACK),
    (b"PK\x03\x04", "a zip archive", _UNPACK),
    (b"PAR1\x15", "a Parquet file", "Pass --format parquet."),
    (b"\xff\xfe\x00\x00", "text of UTF-32", _DECODE),
    (b"\xff\xfe", "text of UTF-16", _DECODE),
    (b"\xfe\xff", "text of UTF-16", _DECODE),
)
# Enough for the first characters: in UTF-16 without a byte order mark each ASCII character has a zero byte.
_FIRST: Final = 4


def check_encoding(file: BinaryIO, path: str) -> None:
    """Check the first bytes of a seekable file, and leave it at its start."""
    file.seek(0)
    first = file.read(8)
    file.seek(0)
    for signature, what, action in _SIGNATURES:
        if first.startswith(signature):
            raise _refused(path, what, action)
    if 0 in first[:_FIRST]:
        raise _refused(path, "text of UTF-16 or UTF-32, or no text", _DECODE)


def decoded(line: bytes, path: str) -> str:
    """Return the text of a line of the file."""
    try:
        return line.decode()
    except UnicodeDecodeError as cause:
        byte = f"the byte 0x{line[cause.start]:02x}, in text of another encoding"
        raise _refused(path, byte, _DECODE) from cause


def _refused(path: str, actual: str, action: str) -> InvalidError:
    return InvalidError(path, found=actual, expected="text of UTF-8", action=action)
