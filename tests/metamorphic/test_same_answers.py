"""The same records in other layouts, batches and commits, compacted at other times: the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.models.model import Model
from tests.support.models.random_table import (
    LAYOUT,
    TableSpec,
    data_of,
    make,
    rows_of,
    stamped_commits,
    table_specs,
    texts,
)
from tests.support.models.strategies import Commit
from widetable.schema.table_schema import TableSchema


@dataclass(frozen=True)
class Way:
    """How the records get into the table. rows_per_commit: None for the commits as drawn, 0 for all that may go
    together. compacts: "never", "inline", "full" after each commit.
    """

    options: Mapping[str, str]
    rows_per_commit: int | None = None
    compacts: str = "never"
    rows_per_batch: int = 1000


PLAIN: Final = {
    "bucket": "1",
    "widetable.level0-columns": "written",
    "write-buffer-size": "256 mb",
    "target-file-size": "128 mb",
    "manifest.merge-min-count": "30",
    "num-sorted-run.compaction-trigger": "5",
}
WAYS: Final = {
    "plain": Way(PLAIN),
    "three buckets": Way({**PLAIN, "bucket": "3"}),
    "full-width level 0": Way({**PLAIN, "widetable.level0-columns": "all"}),
    "spilled": Way({**PLAIN, "write-buffer-size": "1 kb"}, rows_per_commit=0, rows_per_batch=1),
    "compacted eagerly": Way(
        {**PLAIN, "num-sorted-run.compaction-trigger": "2"}, compacts="inline"
    ),
    "compacted late": Way({**PLAIN, "num-sorted-run.compaction-trigger": "3"}, compacts="inline"),
    "compacted fully, small files": Way({**PLAIN, "target-file-size": "1 kb"}, compacts="full"),
    "a commit per record": Way(PLAIN, rows_per_commit=1),
    "two records per commit, compacted": Way(PLAIN, rows_per_commit=2, compacts="full"),
    "few commits": Way(PLAIN, rows_per_commit=0),
}


@st.composite
def operations(draw: st.DrawFn) -> tuple[TableSpec, list[Commit]]:
    spec = draw(table_specs())
    drawn = st.lists(stamped_commits(spec.schema, spec.keys), min_size=1, max_size=5)
    return spec, draw(drawn)


@settings(max_examples=max(5, settings().max_examples // 2))
@given(drawn=operations())
def test_rows_do_not_depend_on_layout_or_timing(drawn: tuple[TableSpec, list[Commit]]) -> None:
    spec, commits = drawn
    assert set(PLAIN) | {"write-only"} == set(LAYOUT)
    model = Model(spec.schema)
    for commit in commits:
        model.write(commit.records)
    expected = texts(model.rows())
    found = {name: _rows_after(spec, commits, way) for name, way in WAYS.items()}
    assert found == dict.fromkeys(WAYS, expected)


def _rows_after(spec: TableSpec, commits: Sequence[Commit], way: Way) -> list[str]:
    write_only = "false" if way.compacts == "inline" else "true"
    with TemporaryDirectory() as folder:
        table = make(folder, spec.with_options({**way.options, "write-only": write_only}))
        for commit in _cut(commits, way.rows_per_commit):
            table.write(_batches(table.schema, commit, way.rows_per_batch))
            if way.compacts == "full":
                table.compact(full=True)
        return rows_of(table)


def _batches(schema: TableSchema, commit: Commit, rows: int) -> pa.RecordBatchReader:
    data = data_of(schema, commit)
    return pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=rows))


def _cut(commits: Sequence[Commit], rows: int | None) -> list[Commit]:
    """The same records in the same order in other commits; only those of the same columns can share one."""
    if rows is None:
        return list(commits)
    together = [
        Commit(columns, tuple(record for commit in group for record in commit.records))
        for columns, group in groupby(commits, key=lambda commit: commit.columns)
    ]
    if rows == 0:
        return together
    return [
        Commit(commit.columns, commit.records[first : first + rows])
        for commit in together
        for first in range(0, len(commit.records), rows)
    ]
