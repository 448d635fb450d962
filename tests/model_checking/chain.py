"""A table as a chain of snapshots, and all that can be read off it; values in, values out, nothing is raised.

An entry is what one snapshot commits: data of one barrier (Append), barriers without data (Idle), level-0 files that
move up (Compact), a writer that joins (Join) or is declared gone (Gone). Ids are 1-based positions. A table is its
chain and the first id that expiry kept; the chain is kept whole to compare with. Results are remembered: `forget`.

Records are counted, not stored: a root's content up to a barrier is how many of its records have a label up to it, a
derived row is the counts that it was computed from. Loss, doubling and mixing of barriers all show.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final, NamedTuple

Pairs = tuple[tuple[str, int], ...]  # writers, sorted, and a barrier each
Ids = tuple[int, ...]
Row = tuple[tuple[tuple[str, str], int], ...]  # of a source and a writer: its records


class Append(NamedTuple):
    """completes: the writer gives nothing more up to the barrier, its label. Roots have records, jobs a row."""

    writer: str
    label: int
    records: int
    row: Row
    completes: bool
    batch: int


class Idle(NamedTuple):
    """Barriers that writers complete without data; of adjacent commits the later one replaces the earlier."""

    barriers: Pairs


class Compact(NamedTuple):
    cut: int
    moved: Ids


class Join(NamedTuple):
    writer: str
    frontier: int


class Gone(NamedTuple):
    writer: str


# Compared as tuples: no two kinds have fields of the same types.
Entry = Append | Idle | Compact | Join | Gone
Chain = tuple[Entry, ...]


class Table(NamedTuple):
    chain: Chain
    first: int


class Snapshot(NamedTuple):
    """frontiers: of members, the barrier each has completed; labels: of all writers, their highest."""

    frontiers: Pairs = ()
    labels: Pairs = ()
    level0: Ids = ()
    upper: Ids = ()
    cut: int = 0


class View(NamedTuple):
    """at: the snapshot whose levels are read; files: with those that came later."""

    at: int
    files: Ids


def value_of(pairs: Pairs, key: str) -> int | None:
    for name, value in pairs:
        if name == key:
            return value
    return None


def put(pairs: Pairs, key: str, value: int) -> Pairs:
    return tuple(sorted([*(pair for pair in pairs if pair[0] != key), (key, value)]))


def put_higher(pairs: Pairs, key: str, value: int) -> Pairs:
    return put(pairs, key, max(value, value_of(pairs, key) or 0))


@cache
def fold(chain: Chain) -> Snapshot:
    """What the newest snapshot says."""
    if not chain:
        return Snapshot()
    frontiers, labels, level0, upper, cut = fold(chain[:-1])
    entry = chain[-1]
    if isinstance(entry, Append):
        labels = put_higher(labels, entry.writer, entry.label)
        if entry.completes:
            frontiers = put(frontiers, entry.writer, entry.label)
        level0 += (len(chain),)
    elif isinstance(entry, Idle):
        for writer, label in entry.barriers:
            frontiers = put(frontiers, writer, label)
            labels = put_higher(labels, writer, label)
    elif isinstance(entry, Compact):
        level0 = tuple(id for id in level0 if id not in entry.moved)
        upper = tuple(sorted(upper + entry.moved))
        cut = entry.cut
    elif isinstance(entry, Join):
        frontiers = put(frontiers, entry.writer, entry.frontier)
    else:
        frontiers = tuple(pair for pair in frontiers if pair[0] != entry.writer)
    return Snapshot(frontiers, labels, level0, upper, cut)


@cache
def frontier(chain: Chain) -> int:
    """The newest barrier that all members have completed."""
    return min((barrier for _, barrier in fold(chain).frontiers), default=0)


def data(chain: Chain, id: int) -> Append:
    """The commit of a data file."""
    entry = chain[id - 1]
    assert isinstance(entry, Append)
    return entry


def counts(chain: Chain, ids: Iterable[int]) -> dict[str, int]:
    """Per root: the records of these files."""
    found: dict[str, int] = {}
    for entry in (data(chain, id) for id in ids):
        found[entry.writer] = found.get(entry.writer, 0) + entry.records
    return found


def rows(chain: Chain, ids: Iterable[int]) -> dict[str, Row]:
    """Per job: the row of the highest label in these files."""
    found: dict[str, Append] = {}
    for entry in (data(chain, id) for id in ids):
        if entry.writer not in found or found[entry.writer].label <= entry.label:
            found[entry.writer] = entry
    return {writer: entry.row for writer, entry in found.items()}


def appends(chain: Chain, after: int, barrier: int) -> list[int]:
    """Ids of data after a snapshot with labels up to the barrier."""
    found = []
    for id in range(after + 1, len(chain) + 1):
        entry = chain[id - 1]
        if isinstance(entry, Append) and entry.label <= barrier:
            found.append(id)
    return found


@cache
def view_by_snapshot(table: Table, barrier: int) -> View | None:
    """Rows as of a barrier: the newest kept snapshot without a later record, and later files of earlier labels."""
    chain, first = table
    for at in range(len(chain), first - 1, -1):
        snapshot = fold(chain[:at])
        if all(label <= barrier for _, label in snapshot.labels):
            files = {*snapshot.level0, *snapshot.upper, *appends(chain, at, barrier)}
            return View(at, tuple(sorted(files)))
    return None


@cache
def view_by_cut(table: Table, barrier: int) -> View | None:
    """The same by the newest kept snapshot whose upper levels end at or before the barrier, and level 0 by label."""
    chain, first = table
    for at in range(len(chain), first - 1, -1):
        snapshot = fold(chain[:at])
        if snapshot.cut <= barrier and all(id >= first for id in snapshot.level0):
            level0 = [id for id in snapshot.level0 if data(chain, id).label <= barrier]
            files = {*snapshot.upper, *level0, *appends(chain, at, barrier)}
            return View(at, tuple(sorted(files)))
    return None


@cache
def changelog_at(chain: Chain, barrier: int) -> int | None:
    """The first snapshot whose changelog is that of exactly the records up to the barrier; None: none, or not yet."""
    for at in range(1, len(chain) + 1):
        snapshot = fold(chain[:at])
        if snapshot.cut > barrier:
            return None
        if frontier(chain[:at]) >= barrier and all(
            data(chain, id).label > barrier for id in snapshot.level0
        ):
            return at
    return None


def appends_of(chain: Chain, writer: str) -> list[Append]:
    return [entry for entry in chain if isinstance(entry, Append) and entry.writer == writer]


@cache
def truth(chain: Chain, writer: str, barrier: int) -> int:
    """What a root gave for barriers up to this one: by the labels of its commits in its lead table."""
    return sum(entry.records for entry in appends_of(chain, writer) if entry.label <= barrier)


@cache
def batches_of(chain: Chain, writer: str) -> Ids:
    return tuple(entry.batch for entry in appends_of(chain, writer))


@cache
def completed(chain: Chain, writer: str) -> frozenset[int]:
    """Barriers that a writer completed with data or a batch of its own."""
    return frozenset(entry.label for entry in appends_of(chain, writer) if entry.completes)


@cache
def membership(chain: Chain, writer: str) -> frozenset[int]:
    """The barriers that became complete while it was a member."""
    found: set[int] = set()
    top = 0
    for at in range(1, len(chain) + 1):
        now = frontier(chain[:at])
        if now > top:
            if value_of(fold(chain[:at]).frontiers, writer) is not None:
                found |= set(range(top + 1, now + 1))
            top = now
    return frozenset(found)


@cache
def base(chain: Chain, barrier: int) -> int:
    """That of a view: who reads as of the barrier, or goes on from it, needs this snapshot and all later ones."""
    for at in range(len(chain), 0, -1):
        if all(label <= barrier for _, label in fold(chain[:at]).labels):
            return at
    return 1


_REMEMBERED: Final = (
    *(fold, frontier, view_by_snapshot, view_by_cut, changelog_at),
    *(truth, batches_of, completed, membership, base),
)


def forget() -> None:
    """Between two searches: chains of another configuration are of no use."""
    for each in _REMEMBERED:
        each.cache_clear()
