"""Arguments of a commit: whole numbers and texts of any kind are taken as such, all else is refused before anything is
written.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from widetable.arguments import text, whole_number
from widetable.messages.near_word import did_you_mean

NO_NUMBERS = [
    True,
    np.bool_(True),
    1.0,
    1.5,
    np.float64(1),
    np.array([1]),
    Decimal(1),
    pa.scalar(1),
    "1",
    b"1",
    2**63,
    -(2**63) - 1,
]
NUMBERS = [np.int64(5), np.uint8(5), np.int32(5), 5]
WAYS = ["write", "overwrite", "commit_append", "commit_overwrite"]
NO_TEXTS = [7, b"job", "\ud800", np.int64(1), ("job",)]
Commit = Callable[..., wt.CommitResult]


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    return wt.Catalog(str(tmp_path)).create_table(
        "db.t", pa.schema([pa.field("k", pa.int64())]), primary_key=["k"]
    )


def files_of(table: wt.Table) -> set[str]:
    return {str(path) for path in Path(table.path).rglob("*") if path.is_file()}


def ways(table: wt.Table) -> dict[str, Commit]:
    data = pa.table({"k": [1]})
    writer = table.new_writer(["k"])
    writer.write(data)
    messages = writer.finish()
    return {
        "write": lambda *by: table.write(data, *by),
        "overwrite": lambda *by: table.overwrite(data, *by),
        "commit_append": lambda *by, **more: table.commit_append(messages, *by, **more),
        "commit_overwrite": lambda *by, **more: table.commit_overwrite(messages, *by, **more),
    }


@pytest.mark.parametrize("way", WAYS)
def test_an_identifier_that_is_no_number_is_refused(table: wt.Table, way: str) -> None:
    commit, before = ways(table)[way], files_of(table)
    for wrong in [*NO_NUMBERS, -1, 2**63 - 1]:
        with pytest.raises(wt.InvalidError, match="commit_identifier"):
            commit("job", wrong)
        with pytest.raises(wt.InvalidError, match="commit_identifier"):
            table.find_commit("job", wrong)
    assert files_of(table) == before


@pytest.mark.parametrize("way", WAYS)
def test_a_user_that_is_no_text_is_refused(table: wt.Table, way: str) -> None:
    commit, before = ways(table)[way], files_of(table)
    for wrong in NO_TEXTS:
        with pytest.raises(wt.InvalidError, match="commit_user"):
            commit(wrong, 1)
        with pytest.raises(wt.InvalidError, match="commit_user"):
            commit(wrong)
    assert files_of(table) == before


@pytest.mark.parametrize("way", ["commit_append", "commit_overwrite"])
def test_a_watermark_that_is_no_number_is_refused(table: wt.Table, way: str) -> None:
    commit, before = ways(table)[way], files_of(table)
    for wrong in NO_NUMBERS:
        with pytest.raises(wt.InvalidError, match="watermark"):
            commit("job", 1, watermark=wrong)
    assert files_of(table) == before


def test_a_property_that_is_no_text_is_refused(table: wt.Table) -> None:
    commit, before = ways(table)["commit_append"], files_of(table)
    for wrong in ({"a": 1}, {1: "a"}, {"a": "\ud800"}, {"\ud800": "a"}):
        with pytest.raises(wt.InvalidError, match="propert"):
            commit("job", 1, properties=wrong)
    assert files_of(table) == before


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_whole_numbers_of_any_kind_commit_as_such(table: wt.Table, number: Any) -> None:
    assert ways(table)["commit_append"](np.str_("job"), number, watermark=number).committed
    assert not table.write(pa.table({"k": [1]}), "job", 5).committed
    reader = wt.Table.open(table.path)
    (snapshot,) = reader.snapshots()
    assert (snapshot.commit_user, snapshot.commit_identifier, snapshot.watermark) == ("job", 5, 5)
    assert reader.scan().to_arrow().num_rows == 1


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_a_number_comes_out_plain(number: Any) -> None:
    assert type(whole_number(number, "n")) is int
    assert whole_number(number, "n", least=5, most=5) == 5
    for bounds in ({"least": 6}, {"most": 4}):
        with pytest.raises(wt.InvalidError, match=r"found .*5.* expected a whole number from"):
            whole_number(number, "n", **bounds)


def test_a_text_comes_out_plain() -> None:
    assert type(text(np.str_("grüße"), "t")) is str
    assert text("", "t") == ""


@pytest.mark.parametrize("wrong", NO_TEXTS, ids=repr)
def test_a_comment_that_is_no_text_is_refused(tmp_path: Path, wrong: Any) -> None:
    catalog, columns = wt.Catalog(str(tmp_path)), pa.schema([pa.field("k", pa.int64())])
    with pytest.raises(wt.InvalidError, match="comment"):
        catalog.create_table("db.t", columns, primary_key=["k"], comment=wrong)
    assert catalog.list_tables() == []


@pytest.mark.parametrize(
    ("word", "said"),
    [("chagelog-producer", " Did you mean changelog-producer?"), ("zzzzzz", "")],
)
def test_a_misspelt_word_is_answered_by_the_one_that_was_meant(word: str, said: str) -> None:
    assert did_you_mean(word, ["bucket", "changelog-producer"]) == said


def test_a_misspelt_option_of_a_table_is_answered_so(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    with pytest.raises(wt.UnsupportedError, match=r"Did you mean merge-engine\?"):
        catalog.create_table(
            "d.t", {"k": "BIGINT"}, primary_key=["k"], options={"merge-engin": "first-row"}
        )
