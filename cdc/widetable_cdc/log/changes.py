"""The changes that a part of the log holds, relation by relation, as columns of texts.

    ordinal   transaction   relation   kind     old            new
    0         900           a          INSERT   -              id 1, name x
    1         900           b          UPDATE   key id 1       id 2, name y, big unchanged
    2         901           a          DELETE   key id 1       -

`DecodedLog.batches` has one `ChangeBatch` for each relation and each form that it has in this part: after a Relation
message with other columns the next batch of that relation begins. Many changes of one form are several batches. Batches
of one relation are in the order of the log, and `ordinals` orders changes over all of them. Texts are as the server
sent them (session settings of `source/session.py`). Raises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Kind(IntEnum):
    """What a change does: the letter of its message."""

    INSERT = ord("I")
    UPDATE = ord("U")
    DELETE = ord("D")
    TRUNCATE = ord("T")


class OldRow(IntEnum):
    """Which columns of the old row a change carries."""

    NONE = 0
    KEY = ord("K")
    FULL = ord("O")


# Replica identities, as Relation messages give them.
IDENTITY_DEFAULT: Final = "d"
IDENTITY_NOTHING: Final = "n"
IDENTITY_FULL: Final = "f"
IDENTITY_INDEX: Final = "i"


@dataclass(frozen=True)
class RelationColumn:
    """A column as a Relation message gives it. is_key: part of the replica identity (all columns with FULL)."""

    name: str
    type_oid: int
    typmod: int
    is_key: bool


@dataclass(frozen=True)
class Relation:
    """A table of the source in one form. columns: in the order of attnum, those that the publication sends."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True)
class ChangeBatch:
    """Changes of one relation in one form, n rows in the order of the log.

    kinds: uint8[n], of `Kind`. old_rows: uint8[n], of `OldRow`. ordinals: int64[n], ascending. xids: uint32[n].
    end_lsns: int64[n], the end LSN of each change's transaction. new: n rows, a large_string column for each column
    of the relation: null where the value is null, unchanged or not sent. unchanged: for the columns that have any
    unchanged big value (marker `u`), bool[n]. old: as `new`, null where the old row does not carry the value; None if
    no change has an old row.
    """

    relation: Relation
    kinds: npt.NDArray[np.uint8]
    old_rows: npt.NDArray[np.uint8]
    ordinals: npt.NDArray[np.int64]
    xids: npt.NDArray[np.uint32]
    end_lsns: npt.NDArray[np.int64]
    new: pa.RecordBatch
    unchanged: dict[str, npt.NDArray[np.bool_]]
    old: pa.RecordBatch | None

    def taken(self, rows: npt.NDArray[np.int64]) -> ChangeBatch:
        """Return some of the changes, in the order of `rows`, int64[m]."""
        index = pa.array(rows)
        return replace(
            self,
            kinds=self.kinds[rows],
            old_rows=self.old_rows[rows],
            ordinals=self.ordinals[rows],
            xids=self.xids[rows],
            end_lsns=self.end_lsns[rows],
            new=self.new.take(index),
            unchanged={name: mask[rows] for name, mask in self.unchanged.items()},
            old=None if self.old is None else self.old.take(index),
        )


@dataclass(frozen=True)
class Transactions:
    """The transactions of a part of the log, n in the order of their commits. commit_micros: since 1970, UTC."""

    xids: npt.NDArray[np.uint32]
    end_lsns: npt.NDArray[np.int64]
    commit_micros: npt.NDArray[np.int64]


@dataclass(frozen=True)
class DecodedLog:
    """A part of the log. relations: their newest forms, also of Relation messages without a change behind them."""

    transactions: Transactions
    batches: tuple[ChangeBatch, ...]
    relations: tuple[Relation, ...]

    @property
    def end_lsn(self) -> int | None:
        """The end LSN of the last transaction; None without transactions."""
        ends = self.transactions.end_lsns
        return int(ends[-1]) if len(ends) else None
