"""Bound the memory of the decoded rows of a Parquet row group, by its footer, before any of it is decoded.

In: the metadata of a file and the leaves that will be read. Out: a bound where the footer gives one, or the columns
that hide their size: nulls take no space in a file, and texts with a dictionary or a common prefix take little, because
each is stored once and decoded as often as it is used. No text is longer than all bytes of its column; the footers of
our own files record the size of their row groups. Pure. Raises nothing.

1,000 rows of a BIGINT and of a constant text of 100 bytes, in 9,343 and 358 bytes:

    enough_bytes 1 GiB    372,000 bytes, nothing hidden: 9,000 + 5,000 + 358 * 1,000
    enough_bytes 1 KiB    14,000 bytes, and the text is hidden: its rows may take 0 to 358 bytes each

The bound is coarse on purpose: no text is longer than all bytes of the column. Where even
that bound is below the caller's limit, nothing has to be probed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import pyarrow.parquet as pq

from widetable.format.parquet_layout import GROUP_BYTES
from widetable.format.parquet_leaves import StoredLeaf

# Bytes of a value in Arrow, with validity; for a text without its bytes.
_VALUE_BYTES: Final = {
    "BOOLEAN": 1,
    "INT32": 5,
    "INT64": 9,
    "INT96": 9,
    "FLOAT": 5,
    "DOUBLE": 9,
    "BYTE_ARRAY": 5,
    "FIXED_LEN_BYTE_ARRAY": 17,
}
_PREFIXED: Final = "DELTA_BYTE_ARRAY"
_GROUP_BYTES: Final = GROUP_BYTES.encode()
_DIGITS: Final = 19


class Leaf(NamedTuple):
    """A leaf column. number: in the file. column: the top-level column that contains it. is_text: of variable
    length.
    """

    number: int
    column: str
    value_bytes: int
    is_text: bool


class GroupBytes(NamedTuple):
    """The bytes of the decoded rows of a row group, without those of the columns that hide their size."""

    bytes: int
    hidden: tuple[str, ...]


def leaves_of(leaves: Iterable[StoredLeaf], columns: Collection[str]) -> tuple[Leaf, ...]:
    """Return the leaves in these top-level columns.

    columns: names of top-level columns; a leaf belongs to the shortest of them that its path
    begins with. Structs, lists and maps have several leaves.
    """
    chosen = []
    for number, leaf in enumerate(leaves):
        paths = accumulate(leaf.path.split("."), "{}.{}".format)  # a name may have dots
        column = next((path for path in paths if path in columns), None)
        if column is not None:
            kind = leaf.physical_type
            chosen.append(Leaf(number, column, _VALUE_BYTES[kind], kind == "BYTE_ARRAY"))
    return tuple(chosen)


def group_bytes(
    metadata: pq.FileMetaData, group: int, leaves: Sequence[Leaf], enough_bytes: int
) -> GroupBytes:
    """Return the bytes of these leaves in one row group. enough_bytes: below this bound no column counts as hidden.

    The note of our own files is the size of the largest group with all its columns, so it
    bounds any other. hidden: columns whose first rows should be probed, each once; their
    texts are not in `bytes`.
    """
    noted = _noted_bytes(metadata)
    if noted is not None and noted <= enough_bytes:
        return GroupBytes(noted, ())
    row_group = metadata.row_group(group)
    shown = hidden = 0
    hiding = []
    for leaf in leaves:
        chunk = row_group.column(leaf.number)
        shown += leaf.value_bytes * chunk.num_values
        if leaf.is_text and (chunk.has_dictionary_page or _PREFIXED in chunk.encodings):
            hiding.append(leaf.column)
            hidden += chunk.total_uncompressed_size * chunk.num_values
        elif leaf.is_text:
            shown += chunk.total_uncompressed_size
    bound = shown + hidden
    if noted is not None or bound <= enough_bytes:
        return GroupBytes(bound if noted is None else min(bound, noted), ())
    return GroupBytes(shown, tuple(dict.fromkeys(hiding)))


def _noted_bytes(metadata: pq.FileMetaData) -> int | None:
    """Return the size in our note; None for other forms, because other clients may copy unknown metadata."""
    noted = (metadata.metadata or {}).get(_GROUP_BYTES, b"")
    return int(noted) if noted.isdigit() and len(noted) < _DIGITS else None
