"""Compressed blocks that claim, or are, more than they may be: refused before the room is made."""

from __future__ import annotations

import contextlib
import io
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from tests.support.faults.damage import damaged_copies
from widetable.errors import UnsupportedError
from widetable.format.avro_file import read_avro
from widetable.format.avro_schema import field
from widetable.format.bounded_codecs import inflate, unlz4, unsnappy, unzstd
from widetable.format.orc.orc_tail import plain_chunks

Codec = tuple[Callable[[bytes], bytes], Callable[[bytes, int], bytes]]
SCHEMA = {"type": "record", "name": "r", "fields": [field("x", "string")]}


def deflated(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def of_arrow(name: str) -> Callable[[bytes], bytes]:
    return lambda data: pa.Codec(name).compress(data, asbytes=True)


CODECS: dict[str, Codec] = {
    "deflate": (deflated, inflate),
    "zstd": (of_arrow("zstd"), unzstd),
    "snappy": (of_arrow("snappy"), unsnappy),
    "lz4": (of_arrow("lz4_raw"), unlz4),
}
every_codec = pytest.mark.parametrize("name", CODECS)


@every_codec
def test_as_much_as_allowed_is_given(name: str, rng: random.Random) -> None:
    compress, decompress = CODECS[name]
    for size in (0, 1, 300, 70_000, 600_000):
        for data in (bytes(size), rng.randbytes(size)):
            assert decompress(compress(data), size) == data
            assert decompress(compress(data), size + 1000) == data
            if size:
                with pytest.raises(ValueError, match="bytes"):
                    decompress(compress(data), size - 1)


@every_codec
def test_damage_is_a_value_error_or_within_bounds(name: str, rng: random.Random) -> None:
    compress, decompress = CODECS[name]
    for _ in range(20):
        block = compress(rng.randbytes(50) * rng.randrange(1, 40))
        for copy in damaged_copies(block, rng):
            with contextlib.suppress(ValueError):
                assert len(decompress(copy, 3000)) <= 3000


@every_codec
def test_a_block_that_is_cut_off_is_refused(name: str, rng: random.Random) -> None:
    compress, decompress = CODECS[name]
    block = compress(rng.randbytes(500))
    for cut in (1, 100, len(block) - 1):
        with pytest.raises(ValueError, match=r"block|end"):
            decompress(block[:cut], 500)


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_a_chunk_of_orc_holds_a_block(number: int) -> None:
    compress = dict(zip((1, 2, 4, 5), ("deflate", "snappy", "lz4", "zstd"), strict=True))
    chunk = CODECS[compress[number]][0](bytes(65_536))
    framed = (len(chunk) << 1).to_bytes(3, "little") + chunk
    assert plain_chunks(framed, number, 65_536) == bytes(65_536)
    with pytest.raises(ValueError, match="bytes"):
        plain_chunks(framed, number, 65_535)


def taken(program: str, *arguments: str) -> int:
    """Megabytes that a process takes at most for it, besides what it takes before."""
    most = "int(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
    before, after = f"before = {most}\n", f"print(({most} - before) >> 10)\n"
    found = subprocess.run(
        [sys.executable, "-c", f"{IMPORTS}{before}{program}{after}", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(found.stdout)


IMPORTS = """
import sys
from pathlib import Path
import tests.widetable.format.test_bounded_codecs as t
data = Path(sys.argv[1]).read_bytes()
name = sys.argv[2]
compress, decompress = t.CODECS[name]
decompress(compress(bytes(2 << 20)), 2 << 20)  # loads what it needs
"""
REFUSED = """
try:
    t.CODECS[name][1](data, 1 << 16)
except ValueError:
    pass
else:
    raise AssertionError("it was taken")
"""


@every_codec
def test_a_bomb_takes_no_room(tmp_path: Path, name: str) -> None:
    """320 MB of zeros, of which 64 KiB are allowed."""
    bomb = tmp_path / "bomb"
    bomb.write_bytes(CODECS[name][0](bytes(320 << 20)))
    assert taken(REFUSED, str(bomb), name) < 32


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_an_avro_block_beyond_what_java_reads_is_refused_by_name(codec: str) -> None:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, [{"x": "a" * (201 << 20)}], codec=codec)
    with pytest.raises(UnsupportedError, match="209715200"):
        read_avro(out.getvalue(), SCHEMA, "m")


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_a_long_avro_record_is_read(codec: str) -> None:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, [{"x": "a" * (30 << 20)}], codec=codec)
    (found,) = read_avro(out.getvalue(), SCHEMA, "m")["x"]
    assert len(found) == 30 << 20
