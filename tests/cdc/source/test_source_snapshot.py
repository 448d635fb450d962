"""Snapshots see what the server says they see, also where the numbers of the log have wrapped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cdc.source.conftest import Database
from widetable import InvalidError
from widetable_cdc.source.source_snapshot import SourceSnapshot


@given(
    xmin=st.integers(3, 2**63 - 2**33) | st.integers(-50, 50).map(lambda near: 7 * 2**32 + near),
    gaps=st.sets(st.integers(0, 40)),
    width=st.integers(41, 60),
    distances=st.lists(st.integers(-(2**31) + 100, 2**31 - 100) | st.integers(-70, 70), min_size=1),
)
def test_numbers_of_32_bits_are_judged_as_their_64(
    xmin: int, gaps: set[int], width: int, distances: list[int]
) -> None:
    """The truth is the rule of pg_visible_in_snapshot, over all 64 bits."""
    running = {xmin + gap for gap in gaps}
    snapshot = SourceSnapshot(xmin, xmin + width, tuple(sorted(running)))
    whole = [max(0, xmin + distance) for distance in distances]
    seen = snapshot.sees(np.array([xid % 2**32 for xid in whole], np.uint32))
    assert seen.tolist() == [xid < xmin + width and xid not in running for xid in whole]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**64 - 1)))
def test_a_snapshot_comes_back_from_its_text(xmin: int, xmax: int, running: list[int]) -> None:
    snapshot = SourceSnapshot(xmin, xmax, tuple(sorted(running)))
    assert SourceSnapshot.parse(str(snapshot)) == snapshot


@pytest.mark.parametrize("text", ["", "1:2", "a:2:", "1:2:3,x", "1:2:3:4", ":2:", "1::", "1:2:3,"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="xmin:xmax"):
        SourceSnapshot.parse(text)


def test_the_server_agrees(database: Database) -> None:
    database.execute("CREATE TABLE t (xid xid8)")
    opened = [database.connect() for _ in range(4)]
    for number, connection in enumerate(opened):
        connection.execute("INSERT INTO t VALUES (pg_current_xact_id())")
        database.execute("INSERT INTO t VALUES (pg_current_xact_id())")
        if number % 2:
            connection.commit()
    ((text,),) = database.execute("SELECT pg_current_snapshot()::text")
    for connection in opened:
        connection.commit()
        connection.close()
    database.execute("INSERT INTO t VALUES (pg_current_xact_id())")
    rows = database.execute(
        "SELECT (xid::text::int8 % 4294967296)::int8, "
        f"pg_visible_in_snapshot(xid, '{text}'::pg_snapshot) FROM t"
    )
    xids, visible = zip(*rows, strict=True)
    assert SourceSnapshot.parse(text).sees(np.array(xids, np.uint32)).tolist() == list(visible)
    assert set(visible) == {True, False}
