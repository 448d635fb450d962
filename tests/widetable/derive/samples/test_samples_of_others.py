"""Samples where another hand was at a table: altered columns, dropped tables, rollbacks, foreign watermarks."""

from __future__ import annotations

from pathlib import Path

import pytest

import widetable as wt
from tests.widetable.derive.samples.sample_model import made, moment
from tests.widetable.derive.samples.test_samples import CASE_10, given, told


@pytest.mark.parametrize("first", [0, -(2**63) + 1])
def test_the_watermark_of_the_end_of_a_stream_ends_all_waits(tmp_path: Path, first: int) -> None:
    """Flink commits 2^63 - 1 at the end of a bounded stream."""
    table = made(tmp_path)
    table.write([{"id": 1, "exposed_at": moment(0)}], "e", 1, watermark=first)
    assert given(table, **CASE_10) == []
    table.write([{"id": 2, "exposed_at": moment(0)}], "e", 2, watermark=2**63 - 1)
    assert told(given(table, **CASE_10), "id") == [("+I", 1), ("+I", 2)]


def test_the_smallest_number_is_no_watermark(tmp_path: Path) -> None:
    """Paimon means none by -2^63."""
    with pytest.raises(wt.InvalidError, match=r"watermark: found -9223372036854775808"):
        made(tmp_path).write([{"id": 1}], "e", 1, watermark=-(2**63))
