"""A round of a widener as commits: piece by piece, each known again by its number; the last one says what it cost.

In: the round and its rows. Out: a `WidenRound`, or None where a commit was in already: another widener was faster.
Raises what reading and committing raises.

    round 5 of three pieces: commits 5 * 2^20, + 1, + 2 of `widen/<fk>`, two of them "part", the last one "end"

A piece is committed when a row behind it has been read, so memory is that of a piece and of what is read at once.
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
    """fact_id, dim_id: the snapshots that were compared. rows: that were written, in so many commits."""

    fact_id: int
    dim_id: int
    rows: int
    commits: int


class NumberedRound(NamedTuple):
    """pair: what it compares; last: the round before it."""

    widening: Widening
    pair: Pair
    last: LastRound

    @property
    def number(self) -> int:
        """Of its own."""
        return self.last.number + 1


# Of rows, who commits them, the properties, and whether they are the last; how many were written, None: they are in.
CommitPiece = Callable[[pa.Table, Identity, dict[str, str], bool], int | None]


def commit_pieces(
    of: NumberedRound, tables: Iterator[pa.Table], ends_with: Mapping[str, str], commit: CommitPiece
) -> WidenRound | None:
    """ends_with: properties of the last commit.

    With None, what this round had committed before stays. The count that the last commit notes
    has its own rows as they were found, before keys that others wrote are left out: properties
    are given with the commit.
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
