"""Widening: columns of a fact table that follow a foreign key into a dimension, in storage.

    fact   id | cust amount | c_city _widen_cust          dim   id | city
           1  | 7    10.0   | Oslo   3                          7  | Oslo

    round r   f, d: the newest snapshots of fact and dim, pinned; f0, d0: those of the round before
      ask     facts that were touched in (f0, f], and those whose dim row differs between d0 and d
      compare what they have at f with the dim's rows at d of their foreign keys at f
      write   what differs, with _widen_<fk> = r, but of no key that somebody wrote after f: it would come back from
              the dead, and is asked again in the next round
      commit  piece by piece, refused where somebody is faster; user `widen/<fk>`, identifier r * 2^20 + piece; the
              last one has the properties widen.fact = f and widen.dim = d

The law: in a commit with widen.fact and widen.dim, each fact that nobody wrote after f has the dim's values at d of its
foreign key at f, nulls where that is null or not there. Because only differences are written, a round that was killed
is made up for by the next one, and nobody reads a change twice (docs/decisions/0027).

Raises NotFoundError for a dim that is not there, InvalidError for one that does not fit, ConflictError where others
were faster again and again, and what reading and writing raises.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from widetable import options as opt
from widetable.commit.commit_identity import Identity
from widetable.commit.committed import last_of, users_of
from widetable.derive.row_changes import state_at
from widetable.derive.source_progress import SourceProgress, held
from widetable.derive.touched_rows import untouched_rows
from widetable.derive.widen_candidates import candidates
from widetable.derived_options import WidenOption
from widetable.errors import ConflictError, InvalidError
from widetable.kernels.arrow_buffers import one_array
from widetable.merge.row_equality import equal_values
from widetable.operations.held_lease import held_lease
from widetable.operations.lookup_view import LookupView
from widetable.operations.neighbour import name_of, neighbour
from widetable.operations.open_table import OpenTable
from widetable.operations.table_commit import append_messages, discard
from widetable.operations.table_write import any_writer
from widetable.schema import TableSchema

PIECES: Final = 1 << 20
FACT, DIM, ROWS, MILLIS = "widen.fact", "widen.dim", "widen.rows", "widen.millis"
_TRIES: Final = 8


class WidenRound(NamedTuple):
    """fact_id, dim_id: the snapshots that were compared. rows: that were written, in so many commits."""

    fact_id: int
    dim_id: int
    rows: int
    commits: int


class _Pins(NamedTuple):
    """The snapshots of a round, and of the round before; None: it is not known any more."""

    fact_id: int
    dim_id: int
    last_fact_id: int | None
    last_dim_id: int | None


def user_of(option: WidenOption) -> str:
    """The commit user of a widener."""
    return f"widen/{option.column}"


def progress_of(
    fact: OpenTable, dim: OpenTable, option: WidenOption
) -> tuple[SourceProgress, SourceProgress]:
    """With the fact table, with the dim."""
    of_fact = SourceProgress(fact, f"widen-{option.column}")
    return of_fact, SourceProgress(dim, f"widen-{name_of(fact)}-{option.column}")


def widen_round(fact: OpenTable, option: WidenOption) -> WidenRound | None:
    """Bring the columns to the newest snapshots. None: they are there, or somebody else is at it."""
    dim = neighbour(fact, option.table, f"option {option.key!r}")
    fact_id, dim_id = (each._committer.snapshots.latest_id() for each in (fact, dim))
    if fact_id is None or dim_id is None:
        return None
    of_fact, of_dim = progress_of(fact, dim, option)
    if (of_fact.last_id(), of_dim.last_id()) == (fact_id, dim_id):
        return None
    lease = f"{fact._paths.service_dir}/widetable-widen-lease-{option.column}"
    with held_lease(fact._state(), path=lease) as is_ours:
        if not is_ours:
            return None
        pins = _Pins(fact_id, dim_id, of_fact.last_id(), of_dim.last_id())
        with held(fact, fact_id), held(dim, dim_id):
            done = _widened(fact, dim, option, pins)
            of_dim.record(dim_id)
            of_fact.record(fact_id)
    return done


def _widened(fact: OpenTable, dim: OpenTable, option: WidenOption, pins: _Pins) -> WidenRound:
    began_seconds = time.monotonic()
    user = user_of(option)
    latest = fact._committer.snapshots.latest()
    last = last_of(users_of(latest, fact._committer.last_commits.load), user)
    number = 1 + (0 if last is None else last.identifier // PIECES)
    digest = " ".join(map(str, pins))
    rows = commits = 0
    pieces = _pieces(fact, _differing(fact, dim, option, pins, number))
    for piece, is_last in _with_last(pieces):
        properties = {}
        if is_last:
            millis = int(1000 * (time.monotonic() - began_seconds))
            properties = {FACT: str(pins.fact_id), DIM: str(pins.dim_id)}
            properties |= {ROWS: str(rows + piece.num_rows), MILLIS: str(millis)}
        by = Identity(user, number * PIECES + commits, digest)
        rows += _committed(fact, piece, pins.fact_id, by, properties)
        commits += 1
    return WidenRound(pins.fact_id, pins.dim_id, rows, commits)


def _differing(
    fact: OpenTable, dim: OpenTable, option: WidenOption, pins: _Pins, number: int
) -> Iterator[pa.Table]:
    """What is to be written: the key, columns that every writer must carry, the widened ones."""
    schema = fact.schema
    carried = [name for name in _carried(schema) if name not in option.columns]
    live_files = dim._committer.live_files
    view = LookupView(state_at(dim, pins.dim_id), live_files, list(option.columns.values()))
    given = (pins.fact_id, pins.dim_id, pins.last_fact_id, pins.last_dim_id)
    try:
        for rows in candidates(fact, dim, option, *given, [*carried, *option.columns]):
            wanted = view.lookup(one_array(rows.column(option.column)))
            arrays = [one_array(column) for column in wanted.columns]
            same = np.logical_and.reduce(
                [
                    equal_values(one_array(rows.column(name)), found)
                    for name, found in zip(option.columns, arrays, strict=True)
                ]
            )
            written = rows.select(carried)
            for name, found in zip(option.columns, arrays, strict=True):
                written = written.append_column(name, found)
            numbers = pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows)
            yield written.append_column(option.sequence, numbers).filter(pa.array(~same))
    finally:
        view.close()


def _carried(schema: TableSchema) -> list[str]:
    """The key, and what no batch may lack, with the rest of its sequence group: these have the values of now, as nobody
    wrote them since.
    """
    required = {*schema.required_names, *schema.sequence_fields}
    groups = [group.columns for group in schema.sequence_groups]
    names = (*schema.primary_keys, *required, *chain(*(g for g in groups if required & set(g))))
    return list(dict.fromkeys(names))


def _pieces(fact: OpenTable, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Joined and cut to what one commit takes."""
    most = fact.schema.typed_options.get(opt.WIDEN_PIECE_ROWS)
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= most:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, most)
            waiting, count = [joined.slice(most)], count - most
    if count:
        yield pa.concat_tables(waiting)


def _with_last(pieces: Iterator[pa.Table]) -> Iterator[tuple[pa.Table, bool]]:
    before = next(pieces, None)
    while before is not None:
        piece = next(pieces, None)
        yield before, piece is None
        before = piece


def _committed(
    fact: OpenTable, piece: pa.Table, read_id: int, by: Identity, properties: dict[str, str]
) -> int:
    """Write what nobody touched, and commit it; again without what was touched meanwhile."""
    for tries_left in reversed(range(_TRIES)):
        rows = untouched_rows(fact, piece, read_id, by.user)
        with any_writer(fact, rows.column_names) as writer:
            writer.write(rows)
            messages = writer.finish()
        try:
            append_messages(fact, messages, by, properties=properties, read_snapshot_id=read_id)
        except (ConflictError, InvalidError) as refused:
            discard(fact, messages)
            if isinstance(refused, InvalidError) or not tries_left:
                raise
        else:
            return int(rows.num_rows)
    raise AssertionError("the last try returns or raises")
