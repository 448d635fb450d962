"""An index is its base's, and of these columns: what others write to it, take it for, or alter."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.derive.joins.indexed import DIM, by_city, dim, disturb, maintained, write
from widetable.derive.indexes import index_table


def test_rows_of_others_for_an_index_are_refused(tmp_path: Path) -> None:
    table = dim(tmp_path)
    maintained(table)
    index = wt.Catalog(str(tmp_path)).table("db.by_city")
    rows = pa.table({"city": ["Oslo"], "k": [17]})
    for use in (
        lambda: index.write(rows),
        lambda: index.overwrite(rows),
        lambda: index.new_writer(["city", "k"]),
        lambda: index.check_write_columns(rows.schema),
        lambda: index.commit_overwrite([]),
    ):
        with pytest.raises(wt.InvalidError, match=r"Write to db\.d instead"):
            use()
    assert by_city(table, ["Oslo"]) == [(0, 1)]


@pytest.mark.parametrize("how", ["rows", "rollback", "overwrite"])
def test_what_somebody_did_to_an_index_is_undone(tmp_path: Path, how: str) -> None:
    """Another client, who does not know the option; lookups wait for the maintainer."""
    table = dim(tmp_path)
    maintained(table)
    index = wt.Catalog(str(tmp_path)).table("db.by_city")
    if how == "rollback":
        before = max(s.id for s in index.snapshots())
        write(table, (4, "Cid", "Rome"))
        maintained(table)
        index.rollback(before)
    else:
        disturb(index, pa.table({"city": ["Oslo"], "k": [17]}), whole_table=how == "overwrite")
    with pytest.raises(wt.NotFoundError, match="Run maintain"):
        by_city(table, ["Oslo"])
    assert maintained(table) > 0
    in_rome = [k for _, k in by_city(table, ["Rome"])]
    assert (by_city(table, ["Oslo"]), in_rome[:1]) == ([(0, 1)], [2])
    assert table.audit().ok
    assert maintained(table) == 0


def test_who_writes_an_index_while_it_is_fed_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = dim(tmp_path)
    maintained(table)
    index = wt.Catalog(str(tmp_path)).table("db.by_city")
    write(table, (4, "Cid", "Rome"))
    real = index_table._committed_files

    def late(*given: Any) -> int:
        disturb(index, pa.table({"city": ["Oslo"], "k": [17]}))
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(index_table, "_committed_files", late)
        maintained(table)
    assert maintained(table) == 3
    assert by_city(table, ["Oslo"]) == [(0, 1)]


def test_rows_of_a_table_that_is_no_index_stay(tmp_path: Path) -> None:
    """It has the index's key, columns of its own, and rows."""
    for columns in ([("note", pa.string())], []):
        with TemporaryDirectory(dir=tmp_path) as folder:
            catalog = wt.Catalog(folder)
            schema = pa.schema([("city", pa.string()), ("k", pa.int64()), *columns])
            others = catalog.create_table("db.by_city", schema, primary_key=["city", "k"])
            others.write([{"city": "X", "k": 5}])
            table = dim(Path(folder))
            with pytest.raises(wt.InvalidError, match=r"no index.*city string, k int64"):
                maintained(table)
            assert others.scan(["city", "k"]).to_arrow().to_pylist() == [{"city": "X", "k": 5}]


def test_two_tables_cannot_share_an_index(tmp_path: Path) -> None:
    table = dim(tmp_path)
    maintained(table)
    other = wt.Catalog(str(tmp_path)).create_table(
        "db.other", DIM, primary_key=["k"], options={"index.city": "db.by_city"}
    )
    write(other, (8, "Eva", "Kyiv"))
    for use in (lambda: maintained(other), lambda: by_city(other, ["Kyiv"])):
        with pytest.raises(wt.InvalidError, match=r"an index of db\.d,"):
            use()
    assert by_city(table, ["Oslo"]) == [(0, 1)]


@pytest.mark.parametrize("how", ["made again", "exchanged"])
def test_an_index_follows_its_columns(tmp_path: Path, how: str) -> None:
    """Their option is taken away for that, and given again; no snapshot of the base says so."""
    table = dim(tmp_path)
    maintained(table)
    catalog = wt.Catalog(str(tmp_path))
    catalog.alter_table("db.d", remove_options=["index.city"])
    if how == "made again":
        catalog.alter_table("db.d", drop_columns=["city"])
        catalog.alter_table("db.d", add_columns=pa.schema([("city", pa.string())]))
    else:
        for old, new in (("city", "t"), ("name", "city"), ("t", "name")):
            catalog.alter_table("db.d", rename_columns={old: new})
    catalog.alter_table("db.d", set_options={"index.city": "db.by_city"})
    with pytest.raises(wt.NotFoundError, match="Run maintain"):
        by_city(table, ["Oslo"])
    maintained(table)
    assert by_city(table, ["Oslo", "Ann"]) == ([] if how == "made again" else [(1, 1)])
    assert table.audit().ok
