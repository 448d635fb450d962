"""Which joins can be kept, what the table is like that holds one, and that nobody else writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.joined import TAGS, A, B, joined_at, write
from widetable.derive.joins.delta_join import join_round


def test_other_writers_are_refused(tmp_path: Path) -> None:
    joined = joined_at("inner", tmp_path)
    rows = joined.out.scan().to_arrow()
    names = rows.column_names
    for call in (
        lambda: joined.out.write(rows),
        lambda: joined.out.overwrite(rows),
        lambda: joined.out.new_writer(names),
        lambda: joined.out.commit_overwrite([], whole_table=True),
        lambda: joined.out.check_write_columns(rows.schema),
    ):
        with pytest.raises(wt.InvalidError, match=r"the join of db\.a and db\.b"):
            call()
    assert joined.rows == [(7, 1, 10, "Ann")]


def made(folder: Path, a: dict[str, Any], b: dict[str, Any], **join: Any) -> wt.Table:
    """a, b: what create_table gets besides the name; A and B by default."""
    catalog = wt.Catalog(str(folder))
    bucket_key = {"bucket-key": "u"}
    catalog.create_table(
        "db.a", **{"schema": A, "primary_key": ["u", "o"], "options": bucket_key, **a}
    )
    catalog.create_table("db.b", **{"schema": B, "primary_key": ["u"], **b})
    options = join.pop("options", None)
    given = {"left": "db.a", "right": "db.b", "on": ["u"], **join}
    return wt.DeltaJoin(catalog, "db.out", **given).create(options)


@pytest.mark.parametrize(
    ("left", "right", "join", "error", "said"),
    [
        ({"options": {}}, {}, {}, wt.UnsupportedError, "bucket-key' = u"),
        (
            {"primary_key": ["o", "u"]},
            {},
            {},
            wt.UnsupportedError,
            "Give db.a the option 'index.u'",
        ),
        ({}, {}, {"on": {"amt": "u"}}, wt.UnsupportedError, "join key .amt. of db.a"),
        ({}, {}, {"on": {"u": "name"}}, wt.InvalidError, "columns of one type"),
        ({}, {}, {"on": {"u": "v"}}, wt.InvalidError, "'v' of db.b, no such column"),
        ({}, {}, {"on": []}, wt.InvalidError, "one column or more"),
        ({}, {}, {"how": "outer"}, wt.InvalidError, "'inner' or 'left'"),
        ({}, {}, {"right": "db.a"}, wt.InvalidError, "another table"),
        ({}, {}, {"right": "db.none"}, wt.NotFoundError, "no table"),
        (
            {},
            {"schema": B.append(pa.field("amt", pa.int8()))},
            {},
            wt.InvalidError,
            "column 'amt'.*Rename the column",
        ),
        (
            {},
            {"schema": TAGS, "primary_key": ["w", "tag"], "options": {"bucket-key": "w"}},
            {"how": "left", "on": {"u": "w"}},
            wt.UnsupportedError,
            "Use an inner join",
        ),
        ({}, {}, {"options": {"merge-engine": "partial-update"}}, wt.InvalidError, "merge-engine"),
        ({}, {}, {"options": {"ignore-delete": "true"}}, wt.InvalidError, "ignore-delete"),
    ],
)
def test_a_join_that_does_not_fit_is_refused(
    tmp_path: Path,
    left: dict[str, Any],
    right: dict[str, Any],
    join: dict[str, Any],
    error: type[Exception],
    said: str,
) -> None:
    with pytest.raises(error, match=said):
        made(tmp_path, left, right, **join)
    assert "db.out" not in wt.Catalog(str(tmp_path)).list_tables()


def test_an_option_of_a_join_without_the_others_is_refused(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    for key, value in (("join.left", "db.a"), ("join.how", "left"), ("join.max-matches", "3")):
        with pytest.raises(wt.InvalidError, match=rf"option '{key}'.*requires"):
            catalog.create_table("db.t", A, primary_key=["u"], options={key: value})


@pytest.mark.parametrize("max_matches", [1, 2**31 - 1])
def test_a_join_lives_with_the_ends_of_its_option(tmp_path: Path, max_matches: int) -> None:
    out = made(tmp_path, {}, {}, max_matches=max_matches)
    a, b = (wt.Catalog(str(tmp_path)).table(name) for name in ("db.a", "db.b"))
    for name in ("Ann", "Anna"):
        write(a, [("+I", 7, 1, 10)])
        write(b, [("+I", 7, name)])
        join_round(out)
    assert out.scan().to_arrow()["name"].to_pylist() == ["Anna"]


def test_left_nulls_and_keys_that_may_not_be_null(tmp_path: Path) -> None:
    b = pa.schema([pa.field("u", pa.int64()), pa.field("name", pa.string(), nullable=False)])
    for how in ("inner", "left"):
        out = made(tmp_path / how, {}, {"schema": b}, how=how)
        nullable = {field.name: field.nullable for field in out.arrow_schema}
        assert nullable == {"u": False, "o": False, "amt": True, "name": how == "left"}


def test_partitions_of_the_left_table_are_kept(tmp_path: Path) -> None:
    left = {
        "schema": pa.schema([("dt", pa.string()), *A]),
        "primary_key": ["dt", "u", "o"],
        "partition_by": ["dt"],
    }
    right = {"schema": pa.schema([("dt", pa.string()), *B]), "primary_key": ["dt", "u"]}
    out = made(tmp_path, left, right, on=["dt", "u"])
    assert out.schema.partition_keys == ("dt",)
    a, b = (wt.Catalog(str(tmp_path)).table(name) for name in ("db.a", "db.b"))
    write(a, [("+I", "d1", 7, 1, 10), ("+I", "d2", 7, 1, 20)])
    write(b, [("+I", "d1", 7, "Ann"), ("+I", "d2", 7, "Bob")])
    join_round(out)
    write(b, [("+I", "d2", 7, "Eve")])
    join_round(out)
    assert [tuple(row.values()) for row in out.scan().to_arrow().to_pylist()] == [
        ("d1", 7, 1, 10, "Ann"),
        ("d2", 7, 1, 20, "Eve"),
    ]
