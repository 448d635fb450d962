"""The ways in which a data file gets damaged: each takes a whole file and leaves a wrong one, or none."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def _flip(data: bytes, at: int, rng: random.Random) -> bytes:
    copy = bytearray(data)
    copy[at] ^= 1 << rng.randrange(8)
    return bytes(copy)


def _footer_at(data: bytes) -> int:
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def _end_of_first_page(data: bytes) -> int:
    chunk = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(0)
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    return int(at + chunk.total_compressed_size - 1)


# `page` is seen only by who reads the first column.
BREAKS: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "empty": lambda data, rng: b"",
    "truncated in the footer": lambda data, rng: data[: rng.randrange(_footer_at(data), len(data))],
    "truncated in a page": lambda data, rng: data[: rng.randrange(4, _footer_at(data))],
    "zeros": lambda data, rng: bytes(len(data)),
    "magic": lambda data, rng: data[:-1] + b"X",
    "page": lambda data, rng: _flip(data, _end_of_first_page(data), rng),
    "longer": lambda data, rng: data + b"x",
    "text": lambda data, rng: b"nothing of the kind".ljust(len(data), b"."),
    "missing": lambda data, rng: None,
}


def break_file(path: Path, how: str, rng: random.Random) -> None:
    """Damage the file at `path`; `how`: a key of BREAKS."""
    broken = BREAKS[how](path.read_bytes(), rng)
    if broken is None:
        path.unlink()
    else:
        path.write_bytes(broken)
