"""The progress of a widener. Its own commits to the fact record it, so rows and progress are published together.

On disk: never change. Piece p of round n is commit n * 2^20 + p of the user `widen/<fk>`, with the digest

    end . <f> . <d> . <f0> . <d0> . <fingerprint>       the last piece: the columns are those of (f, d)
    part. <f> . <d> . <f0> . <d0> . <fingerprint>       others: they are those of (f0, d0), and some of (f, d) already

f, d: the snapshots of fact and dim that the round compares; f0, d0: those of the round before, 0 if it is unknown.
The fingerprint covers the option, the columns of both tables that it names, with their field ids, and the pair whose
values the columns have. If it differs, the dim was created again, or the option or the columns were altered, and the
progress is unknown. Consumers keep what the next round needs; they do not record the progress (decision 0029).

A round that another widener overtook finds its first number taken, so older values never overwrite newer ones.
Raises what reading snapshots raises, StorageError.

    round 3    part.7.4.5.3.<of (5, 3)>      two of these, then the widener is killed
    after it   number 3, the columns are those of (5, 3)         the next one is round 4, and compares (8, 4) with them
    round 4    part.8.4.5.3.<..>, .., end.8.4.5.3.<of (8, 4)>    the columns are those of (8, 4)

Round 4 treats the values that round 3 has written for (7, 4) like any others: it compares them with the dim.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from widetable.commit.snapshots.committed import last_of, users_of
from widetable.derive.changes.column_ids import column_ids
from widetable.derive.changes.fingerprint import fingerprint_of, snapshot_facts
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.neighbour import name_of
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.derived_options import WidenOption

# The highest number of commits of one round; it keeps the identifiers of rounds apart. Never change.
PIECES: Final = 1 << 20
_FIELDS: Final = 6


class Pair(NamedTuple):
    """Snapshots of fact and dim."""

    fact_id: int
    dim_id: int


_NOTHING: Final = Pair(0, 0)


class LastRound(NamedTuple):
    """The last round. number: 0 before the first. done: the pair whose values the columns have, None if unknown.

    has_ended: the round ended with `done`; otherwise it was killed, or is in progress.
    """

    number: int = 0
    done: Pair | None = None
    has_ended: bool = False


class Widening(NamedTuple):
    """A fact table, a dim, the option, and in `columns` the columns and ids that it named at the start of the round."""

    fact: OpenTable
    dim: OpenTable
    option: WidenOption
    columns: str


def widening_of(fact: OpenTable, dim: OpenTable, option: WidenOption) -> Widening:
    """Return the widening with the current columns. Call it before any row is read."""
    own, dim_schema = [option.column, *option.columns, option.sequence], dim.schema
    theirs = [*dim_schema.primary_keys, *option.columns.values()]
    ids = column_ids(fact.schema, own), column_ids(dim_schema, theirs)
    return Widening(fact, dim, option, json.dumps([option.table, dict(option.columns), *ids]))


def user_of(option: WidenOption) -> str:
    """Return the commit user of a widener."""
    return f"widen/{option.column}"


def round_of(snapshot: Snapshot) -> tuple[str, int]:
    """Return the user and the round number of a commit, if its user is a widener."""
    return snapshot.commit_user, snapshot.commit_identifier // PIECES


def last_round(of: Widening, base: Snapshot | None) -> LastRound:
    """Return the last round as of a snapshot of the fact table."""
    if base is None:
        return LastRound()
    last = last_of(users_of(base, of.fact._committer.last_commits.load), user_of(of.option))
    if last is None:
        return LastRound()
    fields = (last.digest or "").split(".")
    number = last.identifier // PIECES
    if len(fields) != _FIELDS or not all(map(str.isdecimal, fields[1:5])):
        return LastRound(number)
    ids, has_ended = list(map(int, fields[1:5])), fields[0] == "end"
    done = Pair(*ids[:2]) if has_ended else Pair(*ids[2:])
    is_known = done != _NOTHING and _fingerprint(of, done) == fields[5]
    return LastRound(number, done, has_ended) if is_known else LastRound(number)


def digest_of(of: Widening, pair: Pair, done: Pair | None, *, is_last: bool) -> str:
    """Return the digest of a piece of the round that compares `pair`. done: the pair whose values the columns had."""
    counts = pair if is_last else done
    printed = "" if counts is None else _fingerprint(of, counts) or ""
    numbers = ".".join(map(str, (*pair, *(done or _NOTHING))))
    return f"{'end' if is_last else 'part'}.{numbers}.{printed}"


def keep_snapshots(of: Widening, pair: Pair) -> None:
    """Let consumers keep these snapshots and all later ones, for the next round."""
    names = f"widen-{of.option.column}", of.option.writer_of(name_of(of.fact))
    for table, name, id in zip((of.fact, of.dim), names, pair, strict=True):
        if table._consumers.next_snapshot(name) != id:
            table._consumers.record(name, id)


def _fingerprint(of: Widening, pair: Pair) -> str | None:
    """Return the fingerprint of a pair; None if a snapshot has expired."""
    try:
        snapshots = [
            table._committer.snapshots.load(id)
            for table, id in zip((of.fact, of.dim), pair, strict=True)
        ]
    except NotFoundError:
        return None
    return fingerprint_of([of.columns, [snapshot_facts(each) for each in snapshots]])
