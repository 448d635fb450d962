"""Winners of partial-update against loops in Python over tuples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels.partial_update import last_marked, last_removal, sequence_winners


@dataclass(frozen=True)
class Records:
    """Records of several keys in order. lanes: of two groups, of one and two lanes; has_sequence: per group."""

    starts: npt.NDArray[np.int64]
    floor: npt.NDArray[np.int64]
    counts: npt.NDArray[np.bool_]
    adds: npt.NDArray[np.bool_]
    deletes: npt.NDArray[np.bool_]
    lanes: npt.NDArray[np.uint64]
    has_sequence: npt.NDArray[np.bool_]

    def ranges(self) -> list[range]:
        ends = self.starts[1:].tolist()
        return [range(a, b) for a, b in zip(self.starts[:-1].tolist(), ends, strict=True)]


@st.composite
def records(draw: st.DrawFn) -> Records:
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = int(starts[-1])

    def mask() -> npt.NDArray[np.bool_]:
        return np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), np.bool_)

    counts, adds = mask(), mask()
    lane = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])
    lanes = draw(st.lists(st.tuples(lane, lane, lane), min_size=rows, max_size=rows))
    pairs = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    floor = [draw(st.integers(start, end - 1) | st.just(-1)) for start, end in pairs]
    return Records(
        starts,
        np.array(floor, np.int64),
        counts,
        adds & counts,
        mask() & ~adds,
        np.array(lanes, np.uint64),
        np.stack([mask(), mask()], axis=1),
    )


@given(records())
def test_last_marked(case: Records) -> None:
    expected = []
    for rows, floor in zip(case.ranges(), case.floor.tolist(), strict=True):
        marked = [row for row in rows if row > floor and case.adds[row]]
        expected.append(marked[-1] if marked else -1)
    assert last_marked(case.starts, case.floor, case.adds).tolist() == expected


@given(records())
def test_sequence_winners(case: Records) -> None:
    has_sequence, lanes = case.has_sequence[:, 1], np.ascontiguousarray(case.lanes[:, 1:])
    expected = []
    for rows, floor in zip(case.ranges(), case.floor.tolist(), strict=True):
        stored, valued = (floor if floor >= 0 and has_sequence[floor] else -1), -1
        for row in rows:
            if row <= floor or not case.counts[row] or not has_sequence[row]:
                continue
            if stored < 0 or lanes[row].tolist() >= lanes[stored].tolist():
                stored, valued = row, row if case.adds[row] else -1
        expected.append((stored, valued))
    winner, value = sequence_winners(
        case.starts, case.floor, case.counts, case.adds, has_sequence, lanes
    )
    assert list(zip(winner.tolist(), value.tolist(), strict=True)) == expected


@given(records())
def test_last_removal(case: Records) -> None:
    lane_starts = np.array([0, 1, 3])
    expected = []
    for rows in case.ranges():
        stored: list[list[int] | None] = [None, None]
        removal = -1
        for row in rows:
            incoming = [
                case.lanes[row, a:b].tolist() if case.has_sequence[row, group] else None
                for group, (a, b) in enumerate([(0, 1), (1, 3)])
            ]
            accepts = [
                new is not None and (old is None or new >= old)
                for new, old in zip(incoming, stored, strict=True)
            ]
            if case.deletes[row] and any(accepts):
                removal, stored = row, incoming
            else:
                stored = [n if a else o for n, a, o in zip(incoming, accepts, stored, strict=True)]
        expected.append(removal)
    found = last_removal(case.starts, case.deletes, case.has_sequence, case.lanes, lane_starts)
    assert found.tolist() == expected
