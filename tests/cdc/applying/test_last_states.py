"""The last states of a round, compared with a source that has done the changes one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cdc.applying.written_changes import Change, LoggingSource, Row, batches, relation
from widetable_cdc.applying.last_states import LastStates, StateSlice, last_states
from widetable_cdc.applying.row_events import row_events
from widetable_cdc.log.changes import Kind, OldRow

FORM = relation("id", "name", "big")
BIG = frozenset(("big", "huge"))


def states_of(changes: list[Change], **options: object) -> LastStates:
    parts = [row_events(batch, ["id"]) for batch in batches(changes)]
    return last_states(parts, **options)  # type: ignore[arg-type]


def rows_of(states: LastStates, slice_rows: int = 3) -> list[tuple[str, str, Row]]:
    """(kind, key, row) of each state; what the round does not know is the text `unresolved <origin>`."""
    rows = []
    for one in states.slices(slice_rows):
        kinds, keys = one.kinds.to_pylist(), one.keys["id"].to_pylist()
        origins = one.origins["id"].to_pylist()
        for at, (kind, key) in enumerate(zip(kinds, keys, strict=True)):
            row = {name: column[at].as_py() for name, column in one.values.items()}
            for name, mask in one.unresolved.items():
                if mask[at]:
                    assert row[name] is None
                    row[name] = f"unresolved {origins[at]}"
            rows.append((kind, key, row))
    return rows


def applied(target: dict[str, Row], states: LastStates) -> dict[str, Row]:
    """The rows of a target after the states, whose unknown values are taken from it."""
    after = {} if states.truncate_lsn is not None else dict(target)
    for kind, key, row in rows_of(states):
        after.pop(key, None)
        if kind == "-D":
            assert set(row.values()) <= {None}
            continue
        for name, value in row.items():
            if value is not None and value.startswith("unresolved "):
                row[name] = target[value.split()[1]][name]
        after[key] = {"id": key, **row}
    return after


def done(
    source: LoggingSource, what: str, draw: random.Random, fills: dict[str, str | None]
) -> None:
    keys = sorted(source.rows)
    free = sorted(set("123456") - set(keys))
    value = f"v{draw.randrange(10**6)}"
    names = [column.name for column in source.form.columns]
    if what == "insert" and free:
        source.insert({name: f"{value}{name}" for name in names} | {"id": free[0]})
    elif what == "add" and "huge" not in names:
        fills["huge"] = "a fill"
        source.add_column("huge", "a fill")
    elif what == "truncate":
        source.truncate()
    elif what == "commit":
        source.xid += 1
    elif keys:
        key = draw.choice(keys)
        if what == "delete":
            source.delete(key)
        elif what == "move" and free:
            moved: Row = {"id": draw.choice(free), "name": value}
            source.update(key, moved | ({"big": value} if draw.random() < 0.3 else {}), BIG)
        elif what == "update":
            changed: Row = draw.choice(
                [{"name": value}, {"big": value}, {"name": None}, {"big": None}]
            )
            source.update(key, changed, BIG)


STEPS = (
    "insert",
    "update",
    "update",
    "update",
    "move",
    "move",
    "delete",
    "truncate",
    "add",
    "commit",
)


@pytest.mark.parametrize("identity", ["d", "f"])
@given(
    steps=st.lists(st.sampled_from(STEPS), max_size=60),
    draw=st.randoms(use_true_random=False),
    slice_rows=st.integers(1, 7),
)
def test_states_on_the_old_rows_are_the_rows_of_the_source(
    identity: str, steps: list[str], draw: random.Random, slice_rows: int
) -> None:
    form = relation("id", "name", "big", identity=identity)
    before: dict[str, Row] = {k: {"id": k, "name": f"n{k}", "big": f"B{k}"} for k in "135"}
    source = LoggingSource(form, before)
    fills: dict[str, str | None] = {}
    for step in steps:
        done(source, step, draw, fills)
    # A column that is added is filled in the target before the changes are applied.
    target = {key: row | dict(fills) for key, row in before.items()}
    states = states_of(source.changes, fills=fills)
    rows = rows_of(states, slice_rows)
    assert len(rows) == len(states) == len({key for _, key, _ in rows})
    names = [column.name for column in source.form.columns]
    expected = {key: {name: row[name] for name in names} for key, row in source.rows.items()}
    after = applied(target, states)
    assert {k: {n: r.get(n, fills.get(n)) for n in names} for k, r in after.items()} == expected


@given(steps=st.lists(st.sampled_from(STEPS), max_size=40), draw=st.randoms(use_true_random=False))
def test_each_transaction_has_a_state_of_each_key_it_left(
    steps: list[str], draw: random.Random
) -> None:
    source = LoggingSource(relation("id", "name", "big"), {})
    expected: dict[int, set[str]] = {}
    for step in [each for each in steps if each not in ("truncate", "add")]:
        done(source, step, draw, {})
        for change in source.changes[-1:]:
            keys = {str((change.old or change.new)["id"])} | (
                {str(change.new["id"])} if change.new else set()
            )
            expected.setdefault(change.end_lsn, set()).update(keys)
    states = states_of(source.changes, every_transaction=True)
    actual: dict[int, list[str]] = {}
    for one in states.slices():
        for lsn, key in zip(one.end_lsns.tolist(), one.keys["id"].to_pylist(), strict=True):
            actual.setdefault(lsn, []).append(key)
    assert {lsn: sorted(keys) for lsn, keys in actual.items()} == {
        lsn: sorted(keys) for lsn, keys in expected.items()
    }
    assert applied({}, states) == source.rows


def test_a_chain_of_moved_keys_takes_the_value_of_the_first() -> None:
    moves = [("2", "20"), ("20", "30")]
    changes = [
        Change(
            FORM, Kind.UPDATE, {"id": to, "name": "x"}, {"id": old}, OldRow.KEY, frozenset(("big",))
        )
        for old, to in moves
    ]
    assert rows_of(states_of(changes)) == [
        ("-D", "2", {"name": None, "big": None}),
        ("-D", "20", {"name": None, "big": None}),
        ("+I", "30", {"name": "x", "big": "unresolved 2"}),
    ]
    insert = Change(FORM, Kind.INSERT, {"id": "2", "name": "a", "big": "BIG"})
    assert rows_of(states_of([insert, *changes]))[-1] == ("+I", "30", {"name": "x", "big": "BIG"})


def test_a_row_whose_old_key_was_left_out_has_no_origin() -> None:
    """Its chunk has seen the change, so what the target has under the old key may be another row by now."""
    move = Change(FORM, Kind.UPDATE, {"id": "20"}, {"id": "2"}, OldRow.KEY, frozenset(("big",)))
    again = Change(FORM, Kind.UPDATE, {"id": "20", "name": "y"}, unchanged=frozenset(("big",)))
    events = row_events(batches([move, again])[0], ["id"])
    states = last_states([events.kept(np.array([False, True, True]))])
    assert rows_of(states) == [("+I", "20", {"name": "y", "big": "unresolved None"})]
    others = [
        Change(FORM, Kind.INSERT, {"id": "9", "big": "of 9"}),
        Change(FORM, Kind.UPDATE, {"id": "9", "big": "of 9"}),
    ]
    events = row_events(batches([*others, move])[0], ["id"])
    states = last_states([events.kept(np.array([True, True, False, True]))])
    assert rows_of(states)[-1] == ("+I", "20", {"name": None, "big": "unresolved None"})


def test_a_value_of_a_deleted_row_is_not_known() -> None:
    """No server logs this; a target must not make a null of it."""
    changes = [
        Change(FORM, Kind.DELETE, old={"id": "1"}, old_row=OldRow.KEY),
        Change(FORM, Kind.UPDATE, {"id": "1"}, unchanged=frozenset(("big",))),
    ]
    assert rows_of(states_of(changes)) == [("+U", "1", {"name": None, "big": "unresolved None"})]


def test_a_truncate_ends_what_was_before_it() -> None:
    changes = [
        Change(FORM, Kind.INSERT, {"id": "1", "big": "B"}),
        Change(FORM, Kind.UPDATE, {"id": "7"}, unchanged=frozenset(("big",))),
        Change(FORM, Kind.TRUNCATE, end_lsn=77),
        Change(FORM, Kind.INSERT, {"id": "2", "name": "x", "big": "C"}),
    ]
    states = states_of(changes)
    assert states.truncate_lsn == 77
    assert rows_of(states) == [("+I", "2", {"name": "x", "big": "C"})]
    assert states_of(changes[:2]).truncate_lsn is None
    assert (states_of(changes[:3]).truncate_lsn, len(states_of(changes[:3]))) == (77, 0)


def test_kinds_say_whether_the_key_had_a_row_before_the_round() -> None:
    old = {"id": "1"}
    insert, update = Change(FORM, Kind.INSERT, {"id": "1"}), Change(FORM, Kind.UPDATE, {"id": "1"})
    delete = Change(FORM, Kind.DELETE, old=old, old_row=OldRow.KEY)
    kinds = [
        [kind for kind, _, _ in rows_of(states_of(changes))]
        for changes in ([insert, update], [update, update], [delete, insert], [insert, delete], [])
    ]
    assert kinds == [["+I"], ["+U"], ["+U"], ["-D"], []]


def test_keys_of_several_columns_are_told_apart() -> None:
    form = relation("a", "b", "c", "v", key=("a", "b", "c"))
    keys = [("1", "2", "3"), ("1", "23", ""), ("12", "", "3"), ("1", "2", "3"), ("3", "2", "1")]
    changes = [
        Change(form, Kind.INSERT, {"a": a, "b": b, "c": c, "v": str(at)})
        for at, (a, b, c) in enumerate(keys)
    ]
    states = last_states([row_events(batch, ["a", "b", "c"]) for batch in batches(changes)])
    slices: list[StateSlice] = list(states.slices())
    assert [one.values["v"].to_pylist() for one in slices] == [["1", "2", "3", "4"]]
    assert slices[0].positions.tolist() == [1, 2, 3, 4]


def test_positions_count_the_changes_of_a_transaction() -> None:
    """They identify a change in each replay, wherever the round began."""
    wider = relation("id", "name", "big", "more")
    lsns = [(FORM, 10), (FORM, 10), (FORM, 20), (FORM, 20), (wider, 20), (wider, 20), (wider, 30)]
    changes = [
        Change(form, Kind.INSERT, {"id": str(at)}, end_lsn=lsn)
        for at, (form, lsn) in enumerate(lsns)
    ]
    positions = [at for one in states_of(changes).slices() for at in one.positions.tolist()]
    assert positions == [0, 1, 0, 1, 2, 3, 0]
    positions = [at for one in states_of(changes[2:]).slices() for at in one.positions.tolist()]
    assert positions == [0, 1, 2, 3, 0]


def test_a_long_chain_of_unchanged_values_is_followed_to_its_beginning() -> None:
    count = 50_000
    updates = [
        Change(FORM, Kind.UPDATE, {"id": "1", "name": str(n)}, unchanged=frozenset(("big",)))
        for n in range(count)
    ]
    insert = Change(FORM, Kind.INSERT, {"id": "1", "big": "BIG"})
    assert rows_of(states_of([insert, *updates])) == [
        ("+I", "1", {"name": str(count - 1), "big": "BIG"})
    ]
