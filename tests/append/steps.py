"""Random steps of a history of an append table: each changes the table and its model alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

import widetable as wt
from tests.append.model import Model, Row, frozen, rows_of

Step = Callable[[wt.Table, Model], None]


def _data(table: wt.Table, rows: list[Row]) -> pa.Table:
    names = list(rows[0])
    return pa.Table.from_pylist(
        rows, schema=pa.schema([table.arrow_schema.field(n) for n in names])
    )


def _columns(model: Model) -> list[str]:
    """The required columns, those that say where a row lies, and some of the others."""
    return [name for name in model.names if name in "nps" or model.rng.random() < 0.8]


def write(table: wt.Table, model: Model) -> None:
    rows = model.drawn_rows(_columns(model))
    given: Any = rows if model.rng.random() < 0.3 else _data(table, rows)
    done = table.write(given)
    new = [model.whole(row) for row in rows]
    model.rows += new
    model.note(done.snapshot_id, new)


def write_in_tasks(table: wt.Table, model: Model) -> None:
    """Two writers of one commit; the rows of the first come first where they share no block of numbers."""
    base, parts, messages = table.sequence_base(), [], []
    columns = _columns(model)
    for task in range(2):
        rows = model.drawn_rows(columns)
        with table.new_writer(columns, task=task, tasks=2, sequence_base=base) as writer:
            writer.write(_data(table, rows))
            messages += writer.finish()
        parts += [model.whole(row) for row in rows]
    model.rng.shuffle(messages)
    done = table.commit_append(messages)
    model.rows += parts
    model.note(done.snapshot_id, parts)


def commit_late(table: wt.Table, model: Model) -> None:
    """A writer begins, another one commits before it: the later commit comes later."""
    rows = model.drawn_rows(_columns(model))
    with table.new_writer(list(rows[0])) as writer:
        writer.write(_data(table, rows))
        messages = writer.finish()
    write(table, model)
    if model.rng.random() < 0.5:
        compact(table, model)
    done = table.commit_append(messages)
    new = [model.whole(row) for row in rows]
    model.rows += new
    model.note(done.snapshot_id, new)


def replay(table: wt.Table, model: Model) -> None:
    rows = model.drawn_rows(_columns(model))
    first = table.write(_data(table, rows), "user", model.next_n)
    again = table.write(_data(table, rows), "user", model.next_n)
    assert (first.committed, again.committed) == (True, False)
    new = [model.whole(row) for row in rows]
    model.rows += new
    model.note(first.snapshot_id, new)


def overwrite(table: wt.Table, model: Model) -> None:
    rows = model.drawn_rows(model.names)
    whole = not table.schema.partition_keys or model.rng.random() < 0.3
    gone = {row["p"] for row in rows}
    done = table.overwrite(_data(table, rows), whole_table=whole)
    model.rows = [row for row in model.rows if not whole and row["p"] not in gone] + rows
    model.note(done.snapshot_id)


def delete(table: wt.Table, model: Model) -> None:
    condition = model.condition()
    gone = model.matching(condition)
    assert table.delete(condition[0], dry_run=True).rows == len(gone)
    done = table.delete(condition[0])
    assert done.rows == len(gone)
    model.rows = [row for row in model.rows if not condition[1](row)]
    model.note(done.snapshot_id)


def update(table: wt.Table, model: Model) -> None:
    condition = model.condition()
    values: Row = {"d": model.rng.choice([None, 2.5]), "l": model.rng.choice([None, [3]])}
    done = table.update(condition[0], values)
    assert done.rows == len(model.matching(condition))
    model.rows = [row | values if condition[1](row) else row for row in model.rows]
    model.note(done.snapshot_id)


def compact(table: wt.Table, model: Model) -> None:
    model.note(table.compact(full=model.rng.random() < 0.5).snapshot_id)


def sort(table: wt.Table, model: Model) -> None:
    if not table.schema.has_free_rows:
        return
    by = model.rng.sample(["n", "s", "d", "p"], model.rng.randrange(1, 4))
    order = model.rng.choice(["linear", "zorder", "hilbert"])
    model.note(table.sort_compact(by, order).snapshot_id)


def add_column(table: wt.Table, model: Model) -> None:
    name = f"c{len(table.snapshots())}_{table.schema.id}"
    catalog(table).alter_table("db.t", add_columns={name: pa.int64()})
    model.names.append(name)
    model.rows = [row | {name: None} for row in model.rows]
    # Older snapshots are read with their own columns.
    model.note(None)


def drop_column(table: wt.Table, model: Model) -> None:
    droppable = [name for name in model.names if name.startswith("c")]
    if not droppable:
        return
    name = model.rng.choice(droppable)
    catalog(table).alter_table("db.t", drop_columns=[name])
    model.names.remove(name)
    model.rows = [{n: v for n, v in row.items() if n != name} for row in model.rows]


def roll_back(table: wt.Table, model: Model) -> None:
    kept = [id for id, rows in model.at.items() if rows and set(rows[0]) == set(model.names)]
    if kept:
        id = model.rng.choice(kept)
        table.rollback(id)
        model.rows = list(model.at[id])
        model.note(table.snapshots()[-1].id)


def look_back(table: wt.Table, model: Model) -> None:
    """A snapshot that is kept has the rows that it had."""
    if model.at:
        id = model.rng.choice(list(model.at))
        actual = rows_of(table.scan(snapshot_id=id).to_arrow())
        assert sorted(map(frozen, actual)) == sorted(map(frozen, model.at[id]))


def filter_rows(table: wt.Table, model: Model) -> None:
    """A scan with a condition leaves no file out that has such a row."""
    condition = model.condition()
    scan = table.scan(filter=condition[0])
    expected = [model.whole(row) for row in model.matching(condition)]
    assert sorted(map(frozen, rows_of(scan.to_arrow()))) == sorted(map(frozen, expected))
    assert scan.count() == len(expected)


def catalog(table: wt.Table) -> wt.Catalog:
    return wt.Catalog(table.path.rsplit("/", 2)[0])


STEPS: Final[tuple[Step, ...]] = (
    write,
    write,
    write,
    write,
    write_in_tasks,
    commit_late,
    replay,
    overwrite,
    delete,
    delete,
    update,
    compact,
    compact,
    sort,
    add_column,
    drop_column,
    roll_back,
    look_back,
    filter_rows,
    filter_rows,
)
