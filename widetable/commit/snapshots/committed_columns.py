"""Which columns the records of a snapshot may have values in, as the snapshot says it.

On disk, a property of the snapshot of an append; never change:

    widetable.columns = field ids of the value columns that were written: numbers and ranges "first-last" in ascending
                        order, joined by commas; empty where only keys were written; absent where nobody knows, where
                        all value columns were written, and where a record may be a -U or -D

    "3,7-9"  ->  {3, 7, 8, 9}

Ids, not names: a column that is renamed stays the same one. Raises DamagedError for a property of another form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from widetable.commit.snapshots.committed import COLUMNS, damaged_property
from widetable.format.snapshot import Snapshot
from widetable.runtime.derived_value import once_per_object
from widetable.schema.table_schema import TableSchema

# Ids of Paimon's system fields begin far above; a range beyond it is no range of columns.
_MOST_IDS: Final = 1 << 20


def columns_text(ids: Collection[int]) -> str:
    """The property's text for these field ids."""
    ranges: list[list[int]] = []
    for id in sorted(ids):
        if ranges and ranges[-1][1] == id - 1:
            ranges[-1][1] = id
        else:
            ranges.append([id, id])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def columns_of(snapshot: Snapshot) -> frozenset[int] | None:
    """Field ids of the value columns that the snapshot's records may have values in; None for all."""
    text = snapshot.properties.get(COLUMNS)
    if text is None:
        return None
    try:
        return frozenset(_ids(part for part in text.split(",") if part))
    except ValueError as cause:
        raise damaged_property(
            snapshot.id, COLUMNS, text, "field ids and ranges of them, joined by commas"
        ) from cause


@once_per_object
def value_ids(schema: TableSchema) -> frozenset[int]:
    """Field ids of all value columns of a table."""
    return frozenset(f.id for f in schema.fields if f.name not in schema.primary_keys)


def union(sets: Iterable[frozenset[int] | None]) -> frozenset[int] | None:
    """The ids of all of these; None where one of them is None."""
    known = list(sets)
    if any(each is None for each in known):
        return None
    return frozenset().union(*(each for each in known if each is not None))


def _ids(parts: Iterable[str]) -> Iterable[int]:
    for part in parts:
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high < _MOST_IDS:
            raise ValueError(part)
        yield from range(low, high + 1)
