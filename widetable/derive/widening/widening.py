"""Widening: columns of a fact table that follow a foreign key into a dimension, in storage.

    fact   id | cust amount | c_city _widen_cust          dim   id | city
           1  | 7    10.0   | Oslo   3                          7  | Oslo

    round r   f, d: the newest snapshots of fact and dim, pinned; f0, d0: those of the round before (widen_progress)
      find    facts that were touched in (f0, f], except by round r - 1, and facts whose dim row differs from d0 to d
      compare their columns at f with the dim's rows at d of their foreign keys at f
      write   what differs, with _widen_<fk> = r at least, except keys that another commit wrote after f: the record
              might restore a deleted row; the next round compares these keys again
      commit  piece by piece, refused where another commit is first; user `widen/<fk>`, identifier r * 2^20 + piece; the
              last one, which may have no rows, has the properties widen.fact = f and widen.dim = d
    no round  while d = d0 and only the widener has written facts since f0

The law: in a commit with widen.fact and widen.dim, each fact that was not written after f has the dim's values at d of
its foreign key at f, nulls if that is null or leads to no row. Only differences are written, so the next round makes up
for a killed one, and no reader sees a change twice (docs/decisions/0029).

Raises NotFoundError for a missing dim, InvalidError for one that does not fit, ConflictError where other commits were
first in each try, and what reading and writing raises.

Why a key that was written after f is left out: fact 1 exists at f, and another commit deletes it at f + 1. The
widener's record of it, with a later sequence number, would create a row with only the widened columns.

A round that is killed between two pieces has written some rows of (f, d). The next one compares again from (f0, d0),
and finds these equal unless the dim has changed again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pyarrow as pa

from widetable.commit.snapshots.committed import last_of, users_of
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.touched_keys import touched_files
from widetable.derive.changes.touched_rows import append_untouched
from widetable.derive.widening.widen_candidates import candidates
from widetable.derive.widening.widen_commits import NumberedRound, WidenRound, commit_pieces
from widetable.derive.widening.widen_progress import (
    Pair,
    keep_snapshots,
    last_round,
    user_of,
    widening_of,
)
from widetable.derive.widening.widen_rows import compared_columns, differing
from widetable.derive.widening.widen_schema import wanted_columns
from widetable.errors import ConflictError, DamagedError, InvalidError
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.neighbour import neighbour
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.table_at import view_at
from widetable.schema.derived_options import WidenOption

FACT, DIM = "widen.fact", "widen.dim"
_log = logging.getLogger("widetable")


def widen_round(fact: OpenTable, option: WidenOption) -> WidenRound | None:
    """Bring the columns to the newest snapshots. Return None if they are there, or another widener is at work or was
    first.

    If rows of the last round's snapshots cannot be read (a repair may leave that behind), all facts are compared.
    Raises DamagedError if the current rows cannot be read either.
    """
    try:
        return _round(fact, option)
    except DamagedError as damage:
        return _round(fact, option, damage)


def _round(
    fact: OpenTable, option: WidenOption, damage: DamagedError | None = None
) -> WidenRound | None:
    """Run one round. damage: the error of a first try; all facts are compared then. It is raised if the first try
    already did so.

    The progress is read as of the same snapshot f that this round compares, so its number is free only as long as no
    other round has committed since.
    """
    dim = neighbour(fact, option.table, f"option {option.key!r}")
    widening = widening_of(fact, dim, option)
    base, dim_id = fact._committer.snapshots.latest(), dim._committer.snapshots.latest_id()
    if base is None or dim_id is None:
        return None
    last = last_round(widening, base)
    if damage is not None:
        if last.done is None:
            raise damage
        warn(
            _log,
            WarningCode.DERIVED_COMPARED_FULLY,
            "all rows of %s are compared for %r: %s",
            fact.path,
            option.key,
            damage,
        )
        last = last._replace(done=None)
    pair = Pair(base.id, dim_id)
    if last.done is not None and _is_idle(fact, option, last.done, pair):
        keep_snapshots(widening, last.done)
        return None
    lease = f"{fact._paths.service_dir}/widetable-widen-lease-{option.column}"
    with held_lease(fact._state(), path=lease) as is_ours:
        if not is_ours:
            return None
        # Either may have been altered.
        wanted_columns(option, fact.schema.arrow_schema(), dim.schema)
        with held(fact._state(), pair.fact_id), held(dim._state(), dim_id):
            of = NumberedRound(widening, pair, last)
            ends_with = {FACT: str(pair.fact_id), DIM: str(pair.dim_id)}
            done = commit_pieces(of, _differing(of), ends_with, partial(_committed, of))
            if done is not None:
                keep_snapshots(widening, pair)
            return done


def _is_idle(fact: OpenTable, option: WidenOption, done: Pair, pair: Pair) -> bool:
    """Return whether the widener has nothing to do. Its own commits do not count, or each round would cause another."""
    committer = fact._committer
    return done.dim_id == pair.dim_id and not touched_files(
        fact._state(), committer.live_files, done.fact_id, pair.fact_id, user_of(option)
    )


def _differing(of: NumberedRound) -> Iterator[pa.Table]:
    fact, dim, option, _ = of.widening
    names = compared_columns(fact.schema, option)
    with closing(view_at(dim, of.pair.dim_id, list(option.columns.values()))) as view:
        yield from differing(fact.schema, option, of.number, candidates(of, names), view)


def _committed(
    of: NumberedRound, piece: pa.Table, by: Identity, properties: dict[str, str], _is_last: bool
) -> int | None:
    """Commit a piece; return the number of rows, or None if another widener was first."""
    fact = of.widening.fact
    try:
        return append_untouched(fact, piece, of.pair.fact_id, by, properties)
    except (ConflictError, InvalidError):
        latest = fact._committer.snapshots.latest()
        last = last_of(users_of(latest, fact._committer.last_commits.load), by.user)
        if last is not None and last.identifier >= by.identifier:
            return None
        raise
