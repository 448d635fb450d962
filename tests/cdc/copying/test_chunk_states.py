"""States of chunks as rows, in a real table, and back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widetable as wt
from widetable_cdc.copying.chunk_states import KEY, SCHEMA, ChunkState, from_table, to_table
from widetable_cdc.source.chunk_range import ChunkRange, KeyKind
from widetable_cdc.source.source_snapshot import SourceSnapshot

_BOUND = st.none() | st.integers(-(2**63), 2**63 - 1)
_SNAPSHOT = st.builds(
    SourceSnapshot, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.just((5, 9))
)
_STATE = st.builds(
    lambda relation, chunk, key_range, read: ChunkState(relation, chunk, key_range, *read),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**31 - 1),
    st.just(ChunkRange())
    | st.builds(ChunkRange, st.text(min_size=1), st.sampled_from(KeyKind), _BOUND, _BOUND),
    st.just((None, None)) | st.tuples(_SNAPSHOT, st.integers(0, 2**63 - 1)),
)


@given(st.lists(_STATE, unique_by=lambda state: (state.relation, state.chunk)))
def test_states_come_back_from_their_rows(states: list[ChunkState]) -> None:
    table = to_table(states)
    assert table.schema == SCHEMA
    expected = sorted(states, key=lambda state: (state.relation, state.chunk))
    assert list(from_table(table)) == expected


def test_a_widetable_keeps_them(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    table = catalog.create_table("shop.__cdc_shop", SCHEMA, primary_key=list(KEY))
    planned = ChunkState(16384, 0, ChunkRange("id", KeyKind.INTEGER, None, 5000))
    table.write(to_table([planned, ChunkState(16384, 1, ChunkRange("id", KeyKind.INTEGER, 5000))]))
    copied = planned.copied(SourceSnapshot(750, 760, (755,)), 24321)
    table.write(to_table([copied]))
    states = from_table(table.scan().to_arrow())
    assert states == (copied, ChunkState(16384, 1, ChunkRange("id", KeyKind.INTEGER, 5000)))
    assert states[1].planned() == states[1]


@pytest.mark.parametrize(
    ("column", "value"),
    [("status", "planned"), ("snapshot", "7"), ("key_kind", "text"), ("lsn", None)],
)
def test_rows_that_no_state_has_are_damage(column: str, value: object) -> None:
    state = ChunkState(1, 0, ChunkRange("id", KeyKind.INTEGER), SourceSnapshot(5, 6), 9)
    (row,) = to_table([state]).to_pylist()
    with pytest.raises(wt.DamagedError, match="states of chunks"):
        from_table(pa.Table.from_pylist([row | {column: value}], schema=SCHEMA))


def test_a_snapshot_has_a_position() -> None:
    with pytest.raises(wt.InvalidError, match="position"):
        ChunkState(1, 0, ChunkRange(), SourceSnapshot(5, 6), None)
