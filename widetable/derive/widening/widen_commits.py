"""The commits of a widener's round: one for each piece, identified by its number; the last one records the cost.

In: the round and its rows. Out: a `WidenRound`, or None if a commit was published before: another widener was first.
Raises what reading and committing raises.

    round 5 of three pieces: commits 5 * 2^20, + 1, + 2 of `widen/<fk>`, two of them "part", the last one "end"

A piece is committed when the next row has been read, so memory is that of a piece and of one batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from widetable.commit.transaction.commit_identity import Identity
from widetable.derive.widening.widen_progress import (
    PIECES,
    LastRound,
    Pair,
    Widening,
    digest_of,
    user_of,
)
from widetable.derive.widening.widen_rows import pieces

ROWS: Final = "widen.rows"
MILLIS: Final = "widen.millis"


class WidenRound(NamedTuple):
    """The result of a round. fact_id, dim_id: the compared snapshots. rows: the number written, in all commits."""

    fact_id: int
    dim_id: int
    rows: int
    commits: int


class NumberedRound(NamedTuple):
    """A round. pair: the snapshots that it compares. last: the round before it."""

    widening: Widening
    pair: Pair
    last: LastRound

    @property
    def number(self) -> int:
        """Return the number of this round."""
        return self.last.number + 1


# It gets rows, their identity, properties, and whether they are the last piece. It returns the number of rows written,
# or None if the commit was published before.
CommitPiece = Callable[[pa.Table, Identity, dict[str, str], bool], int | None]


def commit_pieces(
    of: NumberedRound, tables: Iterator[pa.Table], ends_with: Mapping[str, str], commit: CommitPiece
) -> WidenRound | None:
    """Commit a round piece by piece; return None if another widener was first. ends_with: the last commit's properties.

    Pieces that were committed before a None stay. The last commit records the number of rows before it leaves out keys
    that others wrote, because its properties are fixed before it commits.
    """
    began_seconds = time.monotonic()
    rows = commits = 0
    for piece, is_last in pieces(of.widening.fact, tables):
        properties: dict[str, str] = {}
        if is_last:
            millis = int(1000 * (time.monotonic() - began_seconds))
            properties = {**ends_with, ROWS: str(rows + piece.num_rows), MILLIS: str(millis)}
        digest = digest_of(of.widening, of.pair, of.last.done, is_last=is_last)
        by = Identity(user_of(of.widening.option), of.number * PIECES + commits, digest)
        count = commit(piece, by, properties, is_last)
        if count is None:
            return None
        rows += count
        commits += 1
    return WidenRound(*of.pair, rows, commits)
