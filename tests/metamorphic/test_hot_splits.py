"""A split that is read in two parts gives the rows of one merge, whatever the layout and the deletes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.models.plain_rows import python_rows
from tests.support.models.random_table import (
    TableSpec,
    data_of,
    make,
    stamped_commits,
    table_specs,
    texts,
)
from tests.support.models.strategies import Commit
from widetable.read import hot_split
from widetable.read.split import SplitRead


@st.composite
def operations(draw: st.DrawFn) -> tuple[TableSpec, list[Commit], list[Commit]]:
    spec = draw(table_specs("deduplicate"))
    commits = st.lists(stamped_commits(spec.schema, spec.keys), min_size=1, max_size=4)
    return spec, draw(commits), draw(commits)


@pytest.fixture(autouse=True)
def all_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many newer records there are, a split may be divided."""
    monkeypatch.setattr(hot_split, "_MOST_NEWER_ROWS", float("inf"))


def rows(read: SplitRead) -> list[dict[str, object]]:
    batches = list(read.to_batches())
    return python_rows(pa.Table.from_batches(batches)) if batches else []


def in_parts(read: SplitRead, key: Iterable[str]) -> list[str] | None:
    """The rows as an engine would get them that leaves the touched keys out of the untouched rows."""
    parts = hot_split.hot_split(read)
    if parts is None:
        return None
    assert parts.untouched.raw_files is not None
    touched = {each for row in rows(parts.keys) for each in texts([row])}
    names = list(key)
    untouched = [row for row in rows(parts.untouched) if texts([row], names)[0] not in touched]
    merged = rows(parts.touched)
    assert all(texts([row], names)[0] in touched for row in merged)
    return texts([*untouched, *merged])


def test_both_parts_are_the_rows_of_one_merge() -> None:
    divided = Counter[bool]()

    @settings(max_examples=max(60, settings().max_examples))
    @given(drawn=operations(), compacts_in_between=st.booleans())
    def compare(
        drawn: tuple[TableSpec, list[Commit], list[Commit]], compacts_in_between: bool
    ) -> None:
        spec, older, newer = drawn
        with TemporaryDirectory() as folder:
            table = make(folder, spec)
            for commit in older:
                table.write(data_of(table.schema, commit))
            table.compact(full=True)
            for number, commit in enumerate(newer):
                table.write(data_of(table.schema, commit))
                if compacts_in_between and number % 2:
                    table.compact()
            for read in table.scan().split_reads():
                parts = in_parts(read, spec.primary_key)
                divided[parts is not None] += 1
                assert parts is None or parts == texts(rows(read))

    compare()
    assert divided[True] > 3
