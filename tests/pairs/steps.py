"""The steps of a life besides plain writes: rows are removed, columns altered, branches made, snapshots expired."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

import widetable as wt
from tests.pairs.compared import check_rows
from tests.pairs.drawn_rows import KEY
from tests.pairs.life import BRANCH, Life, Past
from tests.support.models.append_model import AppendModel, RowsModel, model_of
from tests.support.models.model import Row
from tests.support.models.random_table import rows_of, texts

Step = Callable[[Life], None]


def due(life: Life) -> list[Callable[[], None]]:
    """The steps of this life, in an order that is drawn; writes between them."""
    made = [
        *(_STEPS[name] for name in life.row.values() if name in _STEPS),
        *([by_another_client] * life.their_writes),
        *_COMPACTIONS.get(life.row["compaction"], ()),
    ]
    life.rng.shuffle(made)
    steps: list[Step] = [write, write]
    if life.row["branch"] == "written as a branch":
        steps = [write, onto_a_branch, write]
    if life.row["barrier"] == "later":
        steps += [put_under_barriers, write]
    for step in made:
        steps += [step, write]
    return [lambda step=step: _taken(life, step) for step in steps]  # type: ignore[misc]


def _taken(life: Life, step: Step) -> None:
    life.steps.append(step.__name__.replace("_", " "))
    step(life)
    life.note()


def write(life: Life) -> None:
    life.write()


def put_under_barriers(life: Life) -> None:
    life.put_under_barriers()


def by_another_client(life: Life) -> None:
    life.write_by_another_client()


def compact(life: Life) -> None:
    life.table.compact()


def compact_fully(life: Life) -> None:
    life.table.compact(full=True)


def sort(life: Life) -> None:
    life.table.sort_compact(["k", life.names.of["c"]], life.rng.choice(["linear", "zorder"]))


# Removal


def delete(life: Life) -> None:
    has_order = "" if life.row["engine"] != "groups that remove" else " and s is not null"
    gone = [row for row in life.model.rows() if row["k"] == 1 and _can_go(life, row)]
    life.table.delete(f"k = 1{has_order}")
    life.model.write([("-D", row) for row in gone])


def delete_keys(life: Life) -> None:
    gone = [row for row in life.model.rows() if _can_go(life, row)][:2]
    keys = [{name: row[name] for name in KEY} for row in gone]
    life.table.delete_keys(keys or [{"p": 9, "k": 9}])
    life.model.write([("-D", row) for row in gone])


def _can_go(life: Life, row: Row) -> bool:
    return life.row["engine"] != "groups that remove" or row["s"] is not None


def delete_rows(life: Life) -> None:
    gone = [row for row in life.model.rows() if _is_meant(life, row)]
    assert life.table.delete(_meant(life)).rows == len(gone)
    life.model.forget(gone)


def update_rows(life: Life) -> None:
    values = {life.names.of["a"]: life.rng.choice([None, 7])}
    done = life.table.update(_meant(life), values)
    assert isinstance(life.model, AppendModel)
    assert done.rows == sum(_is_meant(life, row) for row in life.model.rows())
    life.model.update(lambda row: _is_meant(life, row), values)


def _meant(life: Life) -> str:
    """A condition on a value, which an index may answer."""
    return f"{life.names.of['c']} = 1 or k = 0"


def _is_meant(life: Life, row: Row) -> bool:
    return bool(row[life.names.of["c"]] == 1 or row["k"] == 0)


def rewrite(life: Life) -> None:
    life.table.delete("k = 1", rewrite=True)
    life.model.forget([row for row in life.model.rows() if row["k"] == 1])


def drop_partition(life: Life) -> None:
    life.table.drop_partitions([{"p": 1}])
    life.model.forget([row for row in life.model.rows() if row["p"] == 1])


# Columns


def add(life: Life) -> None:
    life.names.of["new"] = "new"
    _alter(life, {}, add_columns=[pa.field("new", pa.string())])


def drop(life: Life) -> None:
    del life.names.of["t"]
    _alter(life, {}, drop_columns=["t"])


def rename(life: Life) -> None:
    _alter(life, {"b": "b2", "t": "b"}, rename_columns={"b": "b2", "t": "b"})


def widen(life: Life) -> None:
    _alter(life, {}, change_types={"a": pa.int64()})


def swap(life: Life) -> None:
    _alter(life, {"a": "c", "c": "a"}, rename_columns={"a": "c", "c": "a"})


def move(life: Life) -> None:
    _alter(life, {}, move_columns={"c": "after k", "b": "last"})


def _alter(life: Life, renamed: Mapping[str, str], **change: Any) -> None:
    life.catalog.alter_table(life.name, **change)
    life.table = life.catalog.table(life.name)
    life.names.rename(renamed)
    altered = [life.model, life.shown]
    for past in life.past.values():
        altered += [past.now, past.written]
    for model in altered:
        model.alter(life.table.schema, renamed)


# Branches


def _branch(life: Life) -> wt.Table:
    life.table.create_tag("branched")
    life.table.create_branch(BRANCH, tag="branched")
    return life.catalog.table(f"{life.name}$branch_{BRANCH}")


def onto_a_branch(life: Life) -> None:
    """Main stays as it is."""
    life.kept.append((life.table, life.model.copy()))
    life.table, life.name = _branch(life), f"{life.name}$branch_{BRANCH}"
    life.at_barriers = dict(list(life.at_barriers.items())[-1:])


def branch_of_a_tag(life: Life) -> None:
    """The branch gets a commit of its own; main goes on."""
    branch = _branch(life)
    _on(life, branch, life.model.copy())


def empty_branch(life: Life) -> None:
    life.table.create_branch(BRANCH)
    _on(life, life.catalog.table(f"{life.name}$branch_{BRANCH}"), model_of(life.table.schema))


def _on(life: Life, branch: wt.Table, model: RowsModel) -> dict[int, Past]:
    """One write on a branch, which is read at the end. What its snapshots held, where it made several."""
    here = dict(vars(life))
    life.table, life.model, life.name = branch, model, f"{life.name}$branch_{BRANCH}"
    life.past, life.shown = {}, model.copy()
    life.write()
    life.note()
    life.kept.append((life.table, life.model))
    past = life.past
    vars(life).update(here)
    return past


def fast_forward(life: Life) -> None:
    """Main goes on as the branch, also where it has a commit of its own."""
    branch = _branch(life)
    known = dict(life.past)
    of_branch = _on(life, branch, life.model.copy())
    if life.rng.random() < 0.5:
        life.write()
    plan = life.table.fast_forward(BRANCH, replace=True)
    _, model = life.kept.pop()
    life.table = life.catalog.table(life.name)
    life.model = model.copy()
    life.kept.append((branch, model))
    kept = {id: past for id, past in known.items() if id not in plan.snapshots}
    life.past = {**of_branch, **kept}


# History


def expire(life: Life) -> None:
    life.table.expire_snapshots(1, 1, 0)


def tag_and_expire(life: Life) -> None:
    id = life.table.snapshots()[-1].id
    life.table.create_tag("kept")
    held = life.past[id].then.copy()
    life.write()
    life.note()
    expire(life)
    check_rows("tag", rows_of(life.table, tag="kept"), texts(held.rows()))


def roll_back(life: Life) -> None:
    id = life.rng.choice([snapshot.id for snapshot in life.table.snapshots()])
    life.table.rollback(id)
    life.model, life.shown = life.past[id].written.copy(), life.past[id].now.copy()


def rescale(life: Life) -> None:
    life.table.rescale(life.rng.choice([1, 4]))
    life.model.schema = life.table.schema


def copy(life: Life) -> None:
    """The life goes on in the copy."""
    life.catalog.copy_table(life.name, "db.copy")
    life.kept.append((life.table, life.model.copy()))
    life.table, life.name = life.catalog.table("db.copy"), "db.copy"
    life.past = {}


def maintain(life: Life) -> None:
    life.table.maintain(once=True)


_COMPACTIONS: Final[Mapping[str, Sequence[Step]]] = {
    "by a job": (compact, compact),
    "full": (compact_fully,),
    "sorted": (sort, sort),
}
_STEPS: Final[Mapping[str, Step]] = {
    "delete": delete,
    "delete keys": delete_keys,
    "delete rows": delete_rows,
    "update rows": update_rows,
    "rewrite": rewrite,
    "partition": drop_partition,
    "add": add,
    "drop": drop,
    "rename": rename,
    "widen": widen,
    "swap": swap,
    "move": move,
    "of a tag": branch_of_a_tag,
    "fast-forward": fast_forward,
    "empty": empty_branch,
    "expiry": expire,
    "tag and expiry": tag_and_expire,
    "rollback": roll_back,
    "rescale": rescale,
    "copy": copy,
    "maintain": maintain,
}
