"""The rows that a range of snapshots changed: those that differ between two scans, whatever lies between."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.plain_rows import plain, python_rows
from tests.support.models.random_table import data_of, make, stamped_commits, table_specs
from widetable.derive.changes import row_changes
from widetable.derive.changes.row_changes import changed_rows

Rows = dict[str, str]


def by_key(rows: pa.Table, key: Sequence[str]) -> Rows:
    """Text of the key -> text of the row; rows that are not there are left out."""
    found = {}
    for row in python_rows(rows):
        if row[key[0]] is not None:
            text = repr([plain(row[name]) for name in key])
            assert text not in found
            found[text] = repr({name: plain(value) for name, value in row.items()})
    return found


def differing(old: Rows, new: Rows) -> dict[str, tuple[str | None, str | None]]:
    keys = sorted(old.keys() | new.keys())
    both = {key: (old.get(key), new.get(key)) for key in keys}
    return {key: (one, other) for key, (one, other) in both.items() if one != other}


@settings(max_examples=max(5, settings().max_examples // 2))
@given(st.data())
def test_what_changed_is_what_two_scans_differ_in(data: st.DataObject) -> None:
    spec = data.draw(table_specs(), "table")
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_changes, "_KEYS_AT_ONCE", data.draw(st.sampled_from([1, 3, 1 << 16])))
        table = make(folder, spec)
        for _ in range(data.draw(st.integers(1, 4), "commits")):
            commit = data_of(spec.schema, data.draw(stamped_commits(spec.schema, spec.keys)))
            if data.draw(st.integers(0, 4), "how") == 0:
                table.overwrite(commit)
            else:
                table.write(commit)
            if data.draw(st.integers(0, 2), "compact") == 0:
                table.compact(full=data.draw(st.booleans()))
        ids = [snapshot.id for snapshot in table.snapshots()]
        if not ids:
            return
        until = data.draw(st.sampled_from(ids), "until")
        after = data.draw(st.none() | st.sampled_from([i for i in ids if i <= until]), "after")
        key, columns = table.schema.primary_keys, table.schema.names
        old: Rows = {}
        new: Rows = {}
        for before, now in changed_rows(table, after, until, columns):
            assert before.num_rows == now.num_rows
            for of_piece, of_all in ((before, old), (now, new)):
                found = by_key(of_piece, key)
                assert not found.keys() & of_all.keys()
                of_all.update(found)
        scans = [
            {} if id is None else by_key(table.scan(snapshot_id=id).to_arrow(), key)
            for id in (after, until)
        ]
        assert differing(old, new) == differing(*scans)
        assert set(new.items()) <= set(scans[1].items())


def test_a_range_that_has_expired_is_an_error(tmp_path: object) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", pa.schema([("k", pa.int64()), ("a", pa.int64())]), primary_key=["k"]
    )
    for number in range(4):
        table.write(pa.table({"k": [1], "a": [number]}))
    table.expire_snapshots(num_retained_min=1, num_retained_max=1)
    with pytest.raises(wt.NotFoundError, match="snapshot"):
        list(changed_rows(table, 1, 4, ["k", "a"]))
