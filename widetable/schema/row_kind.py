"""Row kinds: the byte in `_VALUE_KIND`, its short text, and which of them retract.

On disk: never change (Paimon `RowKind`): 0 +I, 1 -U, 2 +U, 3 -D. +I and +U are adds, -U and -D are retractions.

    kind    in rows that are written    in a changelog
    +I      an upsert                   a new row
    -U      retracts                    the row before the change; its +U follows
    +U      an upsert                   the row after the change
    -D      deletes                     the deleted row

Kinds of many rows are int8 arrays everywhere; texts are for people, and for columns of user data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError

if TYPE_CHECKING:
    from numpy.typing import NDArray

INSERT: Final = 0
UPDATE_BEFORE: Final = 1
UPDATE_AFTER: Final = 2
DELETE: Final = 3

TEXTS: Final = ("+I", "-U", "+U", "-D")
# Not pa.array: its first call imports pandas, for half a second. Four texts of two bytes: offsets 0, 2, .. 8.
_TEXT_ARRAY: Final = pa.StringArray.from_buffers(
    len(TEXTS),
    pa.py_buffer(np.arange(0, 2 * len(TEXTS) + 1, 2, dtype=np.int32)),
    pa.py_buffer("".join(TEXTS).encode()),
)


def is_retraction(kinds: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Return a mask that is true where the kind is -U or -D. In: int8[n] of kinds; out: bool[n]."""
    return np.asarray((kinds == UPDATE_BEFORE) | (kinds == DELETE))


def to_texts(kinds: pa.Array) -> pa.Array:
    """Return the short texts of an int8 array of kinds, as plain strings. A null stays null; a number that is not a
    kind raises pyarrow's ArrowIndexError.
    """
    return _TEXT_ARRAY.take(kinds)


def inserts(rows: int) -> pa.Array:
    """Return a number of kinds, all +I: int8, without a bitmap of nulls."""
    return pa.Array.from_buffers(pa.int8(), rows, [None, pa.py_buffer(bytes([INSERT]) * rows)])


def parse_texts(texts: pa.Array, column: str) -> NDArray[np.int8]:
    """Parse a string column of kinds, in any case. Null or another text raises InvalidError naming `column`."""
    upper = pc.utf8_upper(texts.cast(pa.string()))
    kinds = pc.index_in(upper, value_set=_TEXT_ARRAY)
    if kinds.null_count:
        wrong = texts.filter(pc.is_null(kinds))[0].as_py()
        raise InvalidError(
            f"column {column!r}",
            found=f"the row kind {wrong!r}",
            expected="one of +I, -U, +U, -D in every row",
            action="Correct the row kinds in the data.",
        )
    return np.asarray(kinds.cast(pa.int8()).to_numpy(zero_copy_only=False), dtype=np.int8)
