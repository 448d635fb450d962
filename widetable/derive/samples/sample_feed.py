"""Writes samples: one step for each snapshot of the table that changes rows, or with which the slowest writer advances.

    table                       samples               waiting
    7: exposures 1 and 2        -                     +I 10:30 1, +I 10:30 2      one commit each, both number 7
    8: click 1                  +I 1                  -
    9: watermark 10:30          +I 2                  -D 10:30 1, -D 10:30 2
    ── killed between the two commits of a step: the step runs again. The samples have number 9 already, so only those
       who wait are written. What they are does not depend on the samples.

So samples are a function of the snapshots. It makes no difference when a step runs, or how often it was killed. Entries
of `waiting` are only hints: when one is due, the row decides. A lease saves work; without it two would write the same.

In: the two tables. Out: the snapshot up to which samples are written. Memory: the keys that are due at once, and a
piece of their rows at a time. Raises NotFoundError where a snapshot that is needed has expired, InvalidError where
another client took snapshots back, and what reading, writing and committing raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.commit.snapshots.committed import last_of, users_of
from widetable.commit.snapshots.writer_watermarks import known_watermarks
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.touched_keys import touches_rows
from widetable.derive.changes.followed_until import followed_until, following
from widetable.derive.changes.row_difference import equal_rows
from widetable.derive.samples.sample_choice import Marks, SampleChoice, choose
from widetable.derive.samples.sample_plan import DUE
from widetable.derive.samples.sample_tables import SampleTables, consumer_of, tables_of, user_of
from widetable.derive.samples.sample_verdict import micros_of, verdicts
from widetable.derive.samples.sample_views import SampleViews
from widetable.derive.samples.slow_writer import slowest
from widetable.errors import ConflictError, InvalidError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.kernels.arrow_buffers import fixed_values, one_array
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.chosen_state import chosen_state
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.neighbour import name_of
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.changes import prepared_source
from widetable.operations.writes.table_commit import append_messages, discard
from widetable.operations.writes.table_write import any_writer
from widetable.read.change_source import ChangeSource
from widetable.schema.table_schema import ROW_KIND_COLUMN
from widetable.write.commit_message import CommitMessage

# The property of the commits of those who wait: the snapshot of the table up to which samples are written.
SOURCE: Final = "widetable.samples.source"
_KEYS_AT_ONCE: Final = 1 << 16


def sample_source(tables: SampleTables, columns: Sequence[str] | None = None) -> ChangeSource:
    """Return the changes of the samples, which are brought up to date before each look for new ones."""
    return prepared_source(tables.samples, columns, prepare=partial(feed_samples, tables))


def feed_samples(tables: SampleTables) -> int | None:
    """Bring samples up to the newest snapshot of the table; None if they are there, or another process is at work."""
    base = tables.base
    last_id = base._committer.snapshots.latest_id()
    if last_id is None or last_id == sampled_until(base, tables.waiting):
        base._check_alive()
        return None
    lease = f"{base._paths.service_dir}/widetable-samples-lease-{name_of(tables.samples)}"
    with held_lease(base._state(), path=lease) as is_ours:
        return _round(tables) if is_ours else None


def _round(tables: SampleTables) -> int | None:
    base = tables.base
    store, consumer = base._committer.snapshots, consumer_of(name_of(tables.samples))
    done_id = sampled_until(base, tables.waiting)
    last_id = store.latest_id() or 0
    first_id = done_id or tables.begins_id
    check_has(base, tables.samples, first_id)
    if not done_id < last_id or last_id < tables.begins_id:
        return None
    if base.schema.id != tables.plan.schema.id:
        # Columns were altered since the tables were opened, perhaps those that samples are made of.
        tables = tables_of(tables.samples)
    reached = _reached(tables, store.load(done_id)) if done_id else None
    state = base._state()
    with closing(SampleViews(tables, done_id or None)) as views:
        for id in range(done_id + 1 if done_id else first_id, last_id + 1):
            snapshot = store.load(id)
            marks = Marks(id, reached, _reached(tables, snapshot))
            is_first = not done_id and id == first_id
            does = is_first or touches_rows(snapshot, state) or marks.now != reached
            if does or id == last_id:
                views.step_to(id)
                _step(tables, views, snapshot, marks)
                # Another process may be further, and the consumer with it.
                if (base._consumers.next_snapshot(consumer) or 0) < id:
                    base._consumers.record(consumer, id)
            reached = marks.now
    return last_id


def sampled_until(base: OpenTable, queue: OpenTable) -> int:
    """Return the snapshot whose step is done, 0 for none. The commit of those who wait is the last of a step."""
    return followed_until(
        base,
        queue,
        queue._committer.snapshots.latest(),
        user_of(base),
        what="the queue of samples",
        renew="Name another table in into: it begins with the newest snapshot.",
    )


def check_has(base: OpenTable, samples: OpenTable, needed_id: int) -> None:
    """Raise NotFoundError if a snapshot that samples need next has expired."""
    store = base._committer.snapshots
    oldest = store.earliest()
    if needed_id <= (store.latest_id() or 0) and (oldest is None or oldest.id > needed_id):
        raise _lost(base, samples, needed_id, oldest)


def _reached(tables: SampleTables, snapshot: Snapshot) -> int | None:
    writers = tables.plan.rule.writers
    reached, are_all = known_watermarks(snapshot, tables.base._committer.last_commits.load)
    return slowest(reached, writers) if are_all or writers is not None else None


def _step(tables: SampleTables, views: SampleViews, snapshot: Snapshot, marks: Marks) -> None:
    """Write and commit the samples of a snapshot, then those who wait."""
    samples, waiting = tables.samples, tables.waiting
    key = list(tables.plan.schema.primary_keys)
    by = following(user_of(tables.base), snapshot)
    with ExitStack() as stack:
        given = stack.enter_context(
            any_writer(samples, [*tables.plan.fields.names, ROW_KIND_COLUMN])
        )
        queue = stack.enter_context(any_writer(waiting, [DUE, *key, ROW_KIND_COLUMN]))
        for choice in _changed(tables, views, marks):
            given.write(choice.samples)
            queue.write(_entries(choice.waiting, "+I"))
        for entries, choice in _due(tables, views, marks):
            given.write(choice.samples)
            queue.write(_entries(entries, "-D"))
        of_samples, of_queue = given.finish(), queue.finish()
    try:
        _commit(samples, of_samples, by, None)
    except (ConflictError, InvalidError):
        discard(waiting, of_queue)
        raise
    # The property makes a commit of a step without entries, so that its end is known.
    _commit(waiting, of_queue, by, {SOURCE: str(snapshot.id)})


def _commit(
    table: OpenTable,
    messages: list[CommitMessage],
    by: Identity,
    properties: dict[str, str] | None,
) -> None:
    try:
        done = append_messages(table, messages, by, properties=properties)
    except (ConflictError, InvalidError):
        discard(table, messages)
        if _is_overtaken(table, by):
            return
        raise
    if not done.committed and messages:
        discard(table, messages)


def _is_overtaken(table: OpenTable, by: Identity) -> bool:
    """Return whether another process has made later steps, and so this one: it got the lease while we were paused."""
    committer = table._committer
    users = users_of(committer.snapshots.latest(), committer.last_commits.load)
    last = last_of(users, by.user)
    return last is not None and last.identifier > by.identifier


def _changed(tables: SampleTables, views: SampleViews, marks: Marks) -> Iterator[SampleChoice]:
    """Yield what the rows give that the snapshot changed."""
    for before, after in views.changed():
        is_changed = pa.array(~equal_rows(before, after))
        yield _chosen(tables, views, before.filter(is_changed), after.filter(is_changed), marks)


def _due(
    tables: SampleTables, views: SampleViews, marks: Marks
) -> Iterator[tuple[pa.Table, SampleChoice]]:
    """Yield those whose time has come, and what their rows give. Rows that the snapshot changed are in `_changed`."""
    if marks.now is None or marks.now == marks.before:
        return
    key = list(tables.plan.schema.primary_keys)
    is_due = pc.field(DUE) <= pc.scalar(micros_of(marks.now))
    due = chosen_state(tables.waiting).scan([DUE, *key], is_due).to_arrow()
    for start in range(0, due.num_rows, _KEYS_AT_ONCE):
        entries = due.slice(start, _KEYS_AT_ONCE)
        before, after = views.rows(entries.select(key))
        # An entry of a time that the row had before is passed: two of one key may be due at once.
        entered = fixed_values(one_array(entries.column(DUE)), np.int64)
        is_true = verdicts(tables.plan, after, None).due_micros == entered
        rows = after.filter(pa.array(is_true & equal_rows(before, after)))
        yield entries, _chosen(tables, views, rows, rows, marks)


def _chosen(
    tables: SampleTables, views: SampleViews, before: pa.Table, after: pa.Table, marks: Marks
) -> SampleChoice:
    """Choose, with the samples that the keys have."""
    key = tables.plan.schema.primary_keys
    keys = [pc.coalesce(after.column(name), before.column(name)) for name in key]
    given = views.samples(pa.Table.from_arrays(keys, list(key)))
    return choose(tables.plan, before, after, given, marks)


def _entries(rows: pa.Table, kind: str) -> pa.Table:
    return rows.append_column(ROW_KIND_COLUMN, pa.repeat(pa.scalar(kind), rows.num_rows))


def _lost(
    base: OpenTable, samples: OpenTable, needed_id: int, oldest: Snapshot | None
) -> NotFoundError:
    consumer = consumer_of(name_of(samples))
    return NotFoundError(
        f"samples {name_of(samples)!r} of {name_of(base)!r}",
        found=f"snapshot {needed_id}, which they need, expired; the oldest is {oldest.id if oldest else 'none'}",
        expected=f"all snapshots from {needed_id} on, which the consumer {consumer!r} keeps",
        action="Name another table in into: it begins with the newest snapshot. Do not delete the consumer.",
        code=ErrorCode.SNAPSHOT_EXPIRED,
    )
