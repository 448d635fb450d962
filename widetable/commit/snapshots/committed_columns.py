"""The columns that the records of a snapshot may have values in, as recorded in the snapshot.

On disk, a property of the snapshot of an append; never change:

    widetable.columns = field ids of the value columns that were written: numbers and ranges "first-last" in ascending
                        order, joined by commas; empty if only keys were written; absent if they are not known, if
                        all value columns were written, and if a record may be a -U or -D

    "3,7-9"  ->  {3, 7, 8, 9}

Ids identify a column also after it is renamed. Raises DamagedError for a property of another form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from widetable.commit.snapshots.committed import COLUMNS, damaged_property
from widetable.format.snapshot import Snapshot
from widetable.runtime.derived_value import once_per_object
from widetable.schema.table_schema import TableSchema

# Ids of Paimon's system fields begin far above this bound; a range beyond it is damaged.
_MAX_IDS: Final = 1 << 20


def columns_text(ids: Collection[int]) -> str:
    """Return the property's text for these field ids."""
    ranges: list[list[int]] = []
    for id in sorted(ids):
        if ranges and ranges[-1][1] == id - 1:
            ranges[-1][1] = id
        else:
            ranges.append([id, id])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def columns_of(snapshot: Snapshot) -> frozenset[int] | None:
    """Return the field ids of the value columns that the snapshot's records may have values in; None for all."""
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
    """Return the field ids of all value columns of a table."""
    return frozenset(f.id for f in schema.fields if f.name not in schema.primary_keys)


def union(sets: Iterable[frozenset[int] | None]) -> frozenset[int] | None:
    """Return the union of the sets; None (all columns) if one of them is None."""
    id_sets = list(sets)
    if any(each is None for each in id_sets):
        return None
    return frozenset().union(*(each for each in id_sets if each is not None))


def _ids(parts: Iterable[str]) -> Iterable[int]:
    for part in parts:
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high < _MAX_IDS:
            raise ValueError(part)
        yield from range(low, high + 1)
