"""What a range of barriers that is refused says, and what it takes to say so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from widetable.errors import NotFoundError
from widetable.read.barrier_changes import BY_COMPACTION, BarrierChanges

_INTERVAL = 10


class _Views:
    """Snapshot n completes barrier 10 n; compactions go over two at once, and not over the last ones."""

    def __init__(self, snapshots: int, still: int) -> None:
        self.ids = list(range(1, snapshots + 1))
        self.interval = _INTERVAL
        self.first_barrier = 0
        self.looked = 0
        self._still = still

    def state(self, id: int) -> Any:
        self.looked += 1
        frontier = _INTERVAL * id
        moved = min(2 * (id // 2), len(self.ids) - self._still) * _INTERVAL
        waiting = moved + _INTERVAL if frontier > moved else None
        return SimpleNamespace(frontier=frontier, moved=moved, waiting=waiting, highest=frontier)


@pytest.mark.parametrize(
    ("snapshots", "still", "named"),
    [(2, 0, [20]), (10_000, 0, [99_960, 99_980, 100_000]), (10_000, 500, [94_960, 94_980, 95_000])],
)
def test_an_error_names_the_newest_barriers_and_reads_no_more_than_it_needs(
    snapshots: int, still: int, named: list[int]
) -> None:
    views: Any = _Views(snapshots, still)
    options = SimpleNamespace(get=lambda _: BY_COMPACTION)
    state: Any = SimpleNamespace(options=options, paths=SimpleNamespace(root="t"))
    changes = BarrierChanges(state, views)
    with pytest.raises(NotFoundError) as raised:
        changes.position(_INTERVAL)
    assert raised.value.expected.endswith(f": {', '.join(map(str, named))}")
    assert views.looked < 2000
    assert [last for _, last in changes.available(0)][-len(named) :] == named
