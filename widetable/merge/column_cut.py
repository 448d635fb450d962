"""Cuts the keys of a commit by the columns that their records carry: each set of columns gets a file of its own.

A record is in a piece of its own columns. A column that none of a key's records carries is not written for this key.
The cut follows the merge of a commit's records, not the records themselves: the two records of key 1 are
one row, whatever else lies between them, so a key that alternates between sets needs no more files than another key.

    pieces             k a: 1 2 4     k b: 1 3          a key 1 2 3 4, each with a bit for each set of its records
    carried            1: k a + k b   2: k a    3: k b    4: k a
    parts              k a: 2 4       k b: 3    k a b: 1  keys that carry the same columns are in one part

At most `MAX_SETS` parts are of different columns. If the keys' records make more, the keys whose records have several
sets share one part with all of their columns, in which a column that is not written is null: the engines that mix
records of several writers (`MergeEngine.mixes_records`) give both the same meaning. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from widetable.format.row_batch import in_schema_order
from widetable.merge.window import Window
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

# The sets of columns of one commit's rows; a set is a bit of a 64-bit number.
MAX_SETS: Final = 64


def cut_by_columns(window: Window) -> Iterator[tuple[Window, tuple[str, ...]]]:
    """Yield the keys of a window in parts, each with the columns that its keys carry. The pieces of the window have at
    most `MAX_SETS` sets of columns.
    """
    sets = [frozenset(piece.schema.names) for piece in window.pieces]
    places = {columns: place for place, columns in enumerate(dict.fromkeys(sets))}
    if len(places) == 1:
        yield window, window.names
        return
    bits = np.array([1 << places[columns] for columns in sets], np.uint64)
    of_rows = bits[window.piece_of_row[window.order]]
    carried = np.bitwise_or.reduceat(of_rows, window.starts[:-1])
    masks, mask_of_key = np.unique(carried, return_inverse=True)
    parts = _parts(masks.tolist(), list(places))
    for columns, members in parts.items():
        chosen = np.isin(mask_of_key, members)
        names = in_schema_order(window.schema, columns - {SEQUENCE_NUMBER, VALUE_KIND})
        yield (window if len(parts) == 1 else window.layer(window.by_row(chosen))), names


def _parts(masks: list[int], sets: list[frozenset[str]]) -> dict[frozenset[str], list[int]]:
    """Return the columns of each part, with the places of its masks."""
    parts: dict[frozenset[str], list[int]] = {}
    columns_of = [_columns(mask, sets) for mask in masks]
    if len(set(columns_of)) > MAX_SETS:
        shared = [columns for columns in columns_of if columns not in sets]
        every = frozenset().union(*shared)
        columns_of = [columns if columns in sets else every for columns in columns_of]
    for place, columns in enumerate(columns_of):
        parts.setdefault(columns, []).append(place)
    return parts


def _columns(mask: int, sets: list[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(each for place, each in enumerate(sets) if mask >> place & 1))
