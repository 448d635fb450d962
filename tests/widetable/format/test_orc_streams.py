"""Streams of a stripe that claim more numbers than it has values are damage, before room is taken for them."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from widetable.format.orc.orc_streams import DATA, LENGTH, check_streams
from widetable.format.orc.orc_tail import read_tail

ROWS = 600
# A delta run: 512 times 0, in four bytes.
ZEROS = bytes.fromhex("c1ff0000")
NUMBERS = pa.struct([("s", pa.list_(pa.int32()))])
TEXTS = pa.struct([("s", pa.list_(pa.string()))])


def checked(column: pa.Array, stream: tuple[int, int], runs: bytes, **options: Any) -> None:
    """Check a file of one column, of which one stream is replaced. stream: its type and kind."""
    out = io.BytesIO()
    orc.write_table(pa.table({"c": column}), out, compression="uncompressed", **options)
    data = out.getvalue()
    file = data + runs

    def read(at: int, count: int) -> bytes:
        return file[at : at + count]

    tail = read_tail(read, len(data), "f")
    (stripe,) = tail.stripes
    assert stripe.rows == ROWS
    footer = tail.stripe_footer(read, stripe)
    assert stream in footer.streams
    types = list(range(1, len(tail.types)))
    check_streams(tail, footer, read, types, stripe.rows)
    streams = {**footer.streams, stream: (len(data), len(runs))}
    check_streams(tail, replace(footer, streams=streams), read, types, stripe.rows)


@pytest.mark.parametrize(
    ("column", "stream", "options"),
    [
        (pa.array(["a"] * ROWS), (1, LENGTH), {}),
        (pa.array([[1]] * ROWS), (1, LENGTH), {}),
        (pa.array([[(1, 1)]] * ROWS, pa.map_(pa.int32(), pa.int32())), (1, LENGTH), {}),
        (pa.array([["a"]] * ROWS), (2, LENGTH), {}),
        (pa.array([{"s": [1]}] * ROWS, NUMBERS), (2, LENGTH), {}),
        (pa.array([{"s": ["a"]}] * ROWS, TEXTS), (3, LENGTH), {}),
        (pa.array(["a"] * ROWS), (1, DATA), {"dictionary_key_size_threshold": 1.0}),
        (pa.array([["a"]] * ROWS), (2, DATA), {"dictionary_key_size_threshold": 1.0}),
    ],
)
def test_more_numbers_than_values_are_damage(
    column: pa.Array, stream: tuple[int, int], options: dict[str, Any]
) -> None:
    checked(column, stream, ZEROS, **options)
    with pytest.raises(ValueError, match="no runs of 600 numbers"):
        checked(column, stream, ZEROS * 2, **options)


def test_a_dictionary_has_no_more_entries_than_its_column_has_values() -> None:
    column = pa.array([str(number) for number in range(ROWS)])
    options = {"dictionary_key_size_threshold": 1.0}
    with pytest.raises(ValueError, match="lacks entries"):
        checked(column, (1, LENGTH), ZEROS, **options)
    with pytest.raises(ValueError, match="no runs of 600 numbers"):
        checked(column, (1, LENGTH), ZEROS * 2, **options)
