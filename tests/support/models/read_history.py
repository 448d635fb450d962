"""What readers saw, checked by somebody who knows nothing of the engine: sources are replayed up to the barrier of a
session, and every table is a function of that.

    Put        a record of a source: of which barrier, its key and value, None for a delete
    Read       what a session saw of a table: rows by key. sessions are numbered for each reader in their order

Anomalies: rows of another moment than the session's barrier, another answer to the same question in one session, a
reader whose barriers go back. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

Rows = Mapping[int, object]
Sources = Mapping[str, Rows]


class Put(NamedTuple):
    source: str
    barrier: int
    key: int
    value: object


class Read(NamedTuple):
    reader: int
    session: int
    barrier: int
    table: str
    rows: Rows


class Replay:
    """Sources as of barriers. tables: each as a function of them."""

    def __init__(
        self, puts: Sequence[Put], tables: Mapping[str, Callable[[Sources], Rows]]
    ) -> None:
        self._puts = sorted(
            puts, key=lambda put: put.barrier
        )  # stable: the order of a source stays
        self._names = {put.source for put in puts}
        self._tables = tables
        self._known: dict[tuple[str, int], Rows] = {}

    def expected(self, table: str, barrier: int) -> Rows:
        """The rows of a table as of a barrier."""
        if (table, barrier) not in self._known:
            sources: dict[str, dict[int, object]] = {name: {} for name in self._names}
            for put in self._puts:
                if put.barrier > barrier:
                    break
                if put.value is None:
                    sources[put.source].pop(put.key, None)
                else:
                    sources[put.source][put.key] = put.value
            for name, made in self._tables.items():
                self._known[name, barrier] = made(sources)
        return self._known[table, barrier]


def anomalies(reads: Iterable[Read], replay: Replay) -> list[str]:
    """What is wrong, in words; empty when nothing is. reads: of each reader in their order."""
    found: list[str] = []
    newest: dict[int, int] = defaultdict(int)
    barriers: dict[tuple[int, int], int] = {}
    for read in reads:
        who = f"reader {read.reader}, session {read.session}, {read.table} at {read.barrier}"
        if read.rows != replay.expected(read.table, read.barrier):
            expected = replay.expected(read.table, read.barrier)
            found.append(f"{who}: {dict(read.rows)}, the sources say {dict(expected)}")
        if barriers.setdefault((read.reader, read.session), read.barrier) != read.barrier:
            found.append(f"{who}: the session was at another barrier before")
        if read.barrier < newest[read.reader]:
            found.append(f"{who}: it was at {newest[read.reader]} before")
        newest[read.reader] = max(newest[read.reader], read.barrier)
    return found
