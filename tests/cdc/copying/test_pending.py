"""Changes are applied unless their transaction is visible in the snapshot of their key's chunk."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from widetable_cdc.copying.chunk_plan import ChunkPlan
from widetable_cdc.copying.chunk_states import ChunkState
from widetable_cdc.copying.pending import not_yet_seen, truncated
from widetable_cdc.copying.visibility import counts
from widetable_cdc.source.chunk_range import ChunkRange, KeyKind
from widetable_cdc.source.source_snapshot import SourceSnapshot

_BASE = 3 * 2**32 - 20  # the numbers of the log wrap within these tests
_XID = st.integers(_BASE, _BASE + 40)
_SNAPSHOT = st.builds(
    lambda xmin, gaps: SourceSnapshot(xmin, xmin + 12, tuple(sorted(xmin + gap for gap in gaps))),
    st.integers(_BASE, _BASE + 28),
    st.sets(st.integers(0, 11)),
)


def _visible(xid: int, snapshot: SourceSnapshot) -> bool:
    return xid < snapshot.xmax and xid not in snapshot.in_progress


@given(
    st.lists(st.none() | _SNAPSHOT, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(-5, 45), _XID)),
)
def test_a_change_is_applied_unless_its_chunk_shows_it(
    snapshots: list[SourceSnapshot | None], changes: list[tuple[int, int]]
) -> None:
    ends = [None, *(10 * each for each in range(1, len(snapshots))), None]
    plan = ChunkPlan(
        ChunkState(
            1,
            number,
            ChunkRange("id", KeyKind.INTEGER, low, high),
            snapshot,
            None if snapshot is None else 7,
        )
        for number, (low, high, snapshot) in enumerate(
            zip(ends[:-1], ends[1:], snapshots, strict=True)
        )
    )
    keys = pa.array([key for key, _ in changes], pa.int64())
    xids = np.array([xid % 2**32 for _, xid in changes], np.uint32)
    expected = []
    for key, xid in changes:
        chunk = min(max(key // 10, 0), len(snapshots) - 1)
        snapshot = snapshots[chunk]
        expected.append(snapshot is None or not _visible(xid, snapshot))
    assert not_yet_seen(keys, xids, plan).tolist() == expected
    for _, xid in changes[:1]:
        emptied = truncated(xid % 2**32, plan).tolist()
        assert emptied == [each is None or not _visible(xid, each) for each in snapshots]


@given(_SNAPSHOT, st.lists(_XID), _XID)
def test_a_snapshot_counts_if_it_shows_all_that_was_applied(
    snapshot: SourceSnapshot, applied: list[int], floor: int
) -> None:
    xids = np.array([xid % 2**32 for xid in applied], np.uint32)
    shown = all(_visible(xid, snapshot) for xid in applied)
    assert counts(snapshot, xids) == shown
    assert counts(snapshot, xids, floor) == (shown and snapshot.xmin >= floor)
