"""Widening in a table under barriers: its columns are those of the dim at each barrier, exactly (0052).

    writers   ── label T ──►  fact as of T  ─┐
                                             ├─ compared ─► what differs, label T; the last commit completes T
    the dim   ── complete to T ─► dim as of T┘

The widener is a derived writer of the fact, and the fact waits for it: `widen-<fact>-<fk>`. It takes a barrier that the
other writers have completed and that the dim has, by the rule for jobs (`next_barrier`), and reads both tables as of
that barrier, whatever came later. It compares the facts that were written in (P, T], where P is the barrier before, and
the facts whose foreign key leads to such a row of the dim. It compares all facts in the first round, and if P is
unknown.

Records of later barriers do not matter, because each column has one writer. The exception is a record that deletes a
row: the widener's record would restore the row, so such a row is left out. If it is written again, its columns are
correct again.

Raises NotFoundError for a missing dim and for barriers that have expired, InvalidError for a dim that does not fit or
is under other barriers, ConflictError where other commits were first, and what reading and writing raises.

Two wideners of a fact, c_city by cust, and c_zip by c_city (so the second waits for the first);
the other writer is at 60, the dims have all barriers:

    has reached    cust      0    20   20   40   60
                   c_city    0    0    20   20   60
    takes next     cust      60   40   40   60   -
                   c_city    -    20   -    40   -
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pyarrow as pa

from widetable.arguments import LARGEST
from widetable.commit.barriers.barrier_state import BarrierState
from widetable.commit.barriers.barrier_step import Act, BarrierStep
from widetable.commit.transaction.commit_identity import Identity
from widetable.derive.changes.touched_rows import append_left
from widetable.derive.widening.widen_changes import (
    BarrierRound,
    DoneBarrier,
    ReadBarrier,
    candidate_facts,
    lookup_as_of,
    not_deleted,
)
from widetable.derive.widening.widen_commits import NumberedRound, WidenRound, commit_pieces
from widetable.derive.widening.widen_progress import (
    Pair,
    Widening,
    keep_snapshots,
    last_round,
    widening_of,
)
from widetable.derive.widening.widen_rows import compared_columns, differing
from widetable.derive.widening.widen_schema import check_one_interval, wanted_columns
from widetable.operations.barriers.departed_writer import let_leave
from widetable.operations.handle.barrier_scan import active_revision, barrier_views
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.neighbour import name_of, neighbour
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.table_commit import append_messages
from widetable.read.barrier_view import BarrierViews
from widetable.read.next_barrier import Available, next_barrier
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.derived_options import WIDENER_RUN, WidenOption, widen_options
from widetable.schema.table_schema import TableSchema


def let_wideners_leave(fact: OpenTable) -> None:
    """Let a table under barriers stop waiting for wideners whose options were removed.

    Raises ConflictError and NotFoundError where another process was first.
    """
    if fact.schema.typed_options.get(BARRIER_INTERVAL) is None:
        return
    options = widen_options(fact.schema.options)
    writers = {option.writer_of(name_of(fact)) for option in options}
    for writer, member in barrier_views(fact).newest().members.items():
        if member.run == WIDENER_RUN and writer not in writers:
            let_leave(fact, writer)


def widen_to_barrier(fact: OpenTable, option: WidenOption) -> WidenRound | None:
    """Bring the columns to the next barrier. Return None if there is none yet, or another widener is at work or was
    first. There is also none if the widener has only joined the fact in this call: later barriers wait for it.
    """
    dim = neighbour(fact, option.table, f"option {option.key!r}")
    widening = widening_of(fact, dim, option)
    check_one_interval(option, name_of(fact), fact.schema.typed_options, dim.schema)
    lease = f"{fact._paths.service_dir}/widetable-widen-lease-{option.column}"
    with held_lease(fact._state(), path=lease) as is_ours:
        if not is_ours:
            return None
        wanted_columns(option, fact.schema.arrow_schema(), dim.schema)
        of = _next_round(widening)
        if of is None:
            return None
        with (
            held(fact._state(), of.fact.view.first_id),
            held(dim._state(), of.dim.view.first_id),
        ):
            done = commit_pieces(of.numbered, _differing(of), {}, partial(_committed, of))
        if done is not None:
            keep_snapshots(widening, Pair(*(read.first_kept for read in (of.fact, of.dim))))
        return done


def next_widened(
    state: BarrierState, fact: str, schema: TableSchema, option: WidenOption, dim: Available
) -> int | None:
    """Return the barrier that a widener takes next, for a fact in this state. Pure. dim: the barriers that it has.

    It waits for a widener that writes its foreign key, but not for other wideners: they would wait for each other. The
    option's widener is a member of the state. Its labels never go back, so after a kill the next round takes the
    barrier of the committed pieces or a later one (`least`).
    """
    own, interval = state.members[option.writer_of(fact)], state.interval
    wideners = widen_options(schema.options)
    aside = {one.writer_of(fact) for one in wideners if option.column not in one.columns}
    others = [one.frontier for writer, one in state.members.items() if writer not in aside]
    least = max(own.frontier + interval, own.last)
    newest = min(others, default=LARGEST)
    available = Available([(least, newest)] if least <= newest else [])
    return next_barrier([available, dim], interval, is_first=own.at is None)


def _next_round(of: Widening) -> BarrierRound | None:
    """Return the next round, or None; join the fact first if the widener is no member yet.

    The fact's newest snapshot is read before its barriers. So the last round is no newer than the state that it is used
    with, and a round in between takes the number.
    """
    fact, dim, option, _ = of
    base = fact._committer.snapshots.latest()
    revision = active_revision(fact)
    fact_views, dim_views = barrier_views(fact, revision), barrier_views(dim, revision)
    state = fact_views.newest()
    name = name_of(fact)
    own = state.members.get(option.writer_of(name))
    if own is None:
        _join(of, state)
        return None
    available = _available(dim_views, own.frontier)
    barrier = next_widened(state, name, fact.schema, option, available)
    if barrier is None:
        return None
    last = last_round(of, base)
    before = None
    if last.done is not None and own.at is not None:
        before = DoneBarrier(own.at, last.done.fact_id)
    fact_read = ReadBarrier(fact, fact_views, fact_views.ahead(barrier, ()))
    dim_read = ReadBarrier(dim, dim_views, dim_views.view(barrier))
    pair = Pair(fact_views.ids[-1], dim_read.view.end.id)
    numbered = NumberedRound(of, pair, last)
    return BarrierRound(numbered, before, own.at or 0, fact_read, dim_read)


def _available(dim: BarrierViews, after: int) -> Available:
    """Return the barriers of the dim after that one, and which of them are exact."""
    first, newest = max(after + dim.interval, dim.first_barrier), dim.newest().frontier
    spans = [(first, newest)] if first <= newest else []
    return Available(spans, None if dim.exact.has_all else dim.exact.between(after, newest))


def _join(of: Widening, state: BarrierState) -> None:
    writer = of.option.writer_of(name_of(of.fact))
    step = BarrierStep(Act.JOIN, writer, WIDENER_RUN, revision=state.revision, is_derived=True)
    append_messages(of.fact, [], Identity.unnamed(writer), barrier=step)


def _differing(of: BarrierRound) -> Iterator[pa.Table]:
    fact, dim, option, _ = of.numbered.widening
    columns = list(option.columns.values())
    with closing(lookup_as_of(dim, of.dim.view, columns)) as view:
        names = [*compared_columns(fact.schema, option), option.column]
        facts = candidate_facts(of, names)
        yield from differing(fact.schema, option, of.numbered.number, facts, view)


def _committed(
    of: BarrierRound, piece: pa.Table, by: Identity, properties: dict[str, str], is_last: bool
) -> int | None:
    """Commit a piece; return the number of rows, or None if the commit was published before.

        widener    leaves out k 1, which 8 deleted              commit: 9 deletes, too: refused       retry, without k 2
        others                                     9: deletes k 2

    Only the last piece completes the barrier, so no complete barrier has only a part of the round.
    """
    (fact, _, option, _), span = of.numbered.widening, (of.after, of.barrier)
    step = BarrierStep(
        Act.WRITE_ALL if is_last else Act.WRITE,
        option.writer_of(name_of(fact)),
        WIDENER_RUN,
        barrier=of.barrier,
        span=span if is_last else None,
        revision=of.fact.views.newest().revision,
        is_member=True,
        is_derived=True,
    )
    left = partial(not_deleted, fact, piece, of.barrier)
    return append_left(fact, left, by, properties, step)
