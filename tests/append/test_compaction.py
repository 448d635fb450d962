"""Small files of an append table become larger ones: which, in which order, how often, and beside others."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.append.model import made
from widetable.commit.snapshots.committed import ROWS
from widetable.format.binary_row import EMPTY_ROW
from widetable.format.column_stats import EMPTY_STATS
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.deletion_vector import DeletedRows
from widetable.lsm.append_plan import leaves_some, plan_appended
from widetable.lsm.bucket_plan import Scope
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

MB = 1 << 20


def schema(**options: str) -> TableSchema:
    given = {"target-file-size": "100 mb", **options}
    return new_schema(pa.schema([("n", pa.int64())]), primary_key=None, options=given)


FREE, ORDERED = schema(), schema(**{"bucket": "2", "bucket-key": "n"})


def files(*sizes: int, deleted: float = 0.0) -> list[DataFileMeta]:
    """Files of so many megabytes, oldest first; a name is a place. deleted: the share of deleted rows of the first."""
    vector = DeletedRows("v", 0, 1, int(deleted * 100)) if deleted else None
    return [
        DataFileMeta(
            file_name=str(place),
            file_size=size * MB,
            row_count=100,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence_number=place * 100,
            max_sequence_number=place * 100 + 99,
            schema_id=0,
            level=0,
            creation_time_millis=0,
            delete_row_count=0,
            file_source=0,
            value_stats_cols=(),
            deleted=None if place else vector,
        )
        for place, size in enumerate(sizes)
    ]


def picked(of: TableSchema, members: list[DataFileMeta], scope: Scope) -> list[int]:
    plan = plan_appended(of, members, scope)
    return [int(file.file_name) for step in plan for file in step.files]


@pytest.mark.parametrize(
    ("of", "sizes", "scope", "expected"),
    [
        (FREE, (2, 2, 2, 2, 2), Scope.DUE, [0, 1, 2, 3, 4]),
        (FREE, (2, 2, 2, 2), Scope.DUE, []),
        (FREE, (40, 2, 2, 2, 2), Scope.DUE, []),
        (FREE, (40, 2, 2, 2, 2, 2), Scope.DUE, [1, 2, 3, 4, 5]),
        (FREE, (6, 2, 2, 2, 2), Scope.DUE, [1, 2, 3, 4, 0]),
        (FREE, (2, 2, 30, 30, 30, 30, 30), Scope.DUE, [2, 3, 4, 5, 6]),
        (FREE, (2, 80, 2, 80), Scope.FULL, [0, 2]),
        (FREE, (2,), Scope.FULL, []),
        (FREE, (80, 90), Scope.FULL, []),
        (FREE, (2, 2, 2, 2, 2), Scope.EXPIRY, []),
        (FREE, (2, 2, 2, 2, 2), Scope.REST, []),
        (ORDERED, (2, 2, 2, 2, 2), Scope.DUE, [0, 1, 2, 3, 4]),
        (ORDERED, (2, 2, 80, 2, 2), Scope.FULL, [3, 4]),
        (ORDERED, (2, 2, 2, 2, 2, 80, 2), Scope.DUE, [0, 1, 2, 3, 4]),
        (ORDERED, (40, 2, 2, 2, 2, 2), Scope.DUE, [1, 2, 3, 4, 5]),
        (ORDERED, (2, 2, 40, 2, 2), Scope.DUE, []),
        (ORDERED, (2, 2, 2, 2, 2, 40, 2), Scope.DUE, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_files_of_similar_size_join(
    of: TableSchema, sizes: tuple[int, ...], scope: Scope, expected: list[int]
) -> None:
    members = files(*sizes)
    random.Random(1).shuffle(members)
    if of is FREE:
        assert sorted(picked(of, members, scope)) == sorted(expected)
    else:
        assert picked(of, members, scope) == expected


def test_a_file_that_has_lost_many_rows_is_rewritten() -> None:
    for of in (FREE, ORDERED):
        assert picked(of, files(80, 80, deleted=0.3), Scope.DUE) == [0]
        assert picked(of, files(80, 80, deleted=0.1), Scope.DUE) == []
        assert picked(of, files(80, 80, deleted=0.1), Scope.FULL) == [0]


def test_a_commit_rewrites_no_more_than_may_be_done_inline() -> None:
    of = schema(**{"widetable.inline-compaction-size": "20 mb"})
    assert picked(of, files(*[2] * 9), Scope.COMMIT)
    assert not picked(of, files(*[30] * 9), Scope.COMMIT)
    assert picked(of, files(*[30] * 9), Scope.DUE)


def test_a_plan_is_bounded_and_says_that_another_follows() -> None:
    members = files(*[60] * 40)
    plan = plan_appended(FREE, members, Scope.FULL)
    assert sum(file.file_size for step in plan for file in step.files) <= 1024 * MB
    assert leaves_some(FREE, members, plan)
    assert not leaves_some(FREE, members[:5], plan_appended(FREE, members[:5], Scope.FULL))


def test_files_of_a_newer_schema_are_left_to_who_knows_it() -> None:
    members = files(2, 2, 2, 2, 2)
    members[3] = members[3]._replace(schema_id=1)
    assert picked(FREE, members, Scope.FULL) == []


def test_a_row_is_rewritten_about_once_for_each_doubling(tmp_path: Path) -> None:
    """A table that gets small commits all the time rewrites its rows a few times, not with each commit."""
    table = made(tmp_path, "free", parts=False)
    commits = 64
    for _ in range(commits):
        table.write({"n": range(50), "s": [random.randbytes(6000).hex() for _ in range(50)]})
    load = table._committer.snapshots.load
    kinds = [load(snapshot.id) for snapshot in table.snapshots()]
    rewritten = sum(int(s.properties[ROWS]) for s in kinds if s.commit_kind == "COMPACT")
    assert table.inspect.files().num_rows < commits / 4
    assert rewritten <= commits * 50 * 4
    assert table.scan().count() == commits * 50


@pytest.mark.parametrize("kind", ["free", "vectors", "buckets"])
def test_a_compaction_that_loses_a_race_hurts_nobody(tmp_path: Path, kind: str) -> None:
    """It has read files from which another commit takes rows, before it commits itself."""
    table = made(tmp_path, kind, parts=False, **{"write-only": "true"})
    for number in range(6):
        table.write([{"n": number, "s": "a"}, {"n": number + 100, "s": "a"}])
    committer = table._committer
    compact = committer.compact

    def overtaken(*given: object, **named: object) -> object:
        committer.compact = compact  # type: ignore[method-assign]
        wt.Table.open(table.path).delete("n >= 100")
        return compact(*given, **named)  # type: ignore[arg-type]

    committer.compact = overtaken  # type: ignore[method-assign,assignment]
    assert table.compact(full=True).committed
    numbers = table.scan(["n"]).to_arrow().column("n").to_pylist()
    assert sorted(numbers) == list(range(6))
    assert kind != "buckets" or numbers == list(range(6))
    assert table.inspect.files().num_rows == 1
    assert table.audit().findings == ()
    assert list(table.remove_orphan_files(older_than_millis=0).paths) == []


def test_a_delete_that_loses_a_race_is_made_again(tmp_path: Path) -> None:
    table = made(tmp_path, "vectors", parts=False, **{"write-only": "true"})
    for number in range(6):
        table.write([{"n": number, "s": "a"}, {"n": number + 100, "s": "a"}])
    committer = table._committer
    rewrite = committer.rewrite

    def overtaken(*given: object, **named: object) -> object:
        committer.rewrite = rewrite  # type: ignore[method-assign]
        wt.Table.open(table.path).compact(full=True)
        wt.Table.open(table.path).write([{"n": 500, "s": "late"}])
        return rewrite(*given, **named)  # type: ignore[arg-type]

    committer.rewrite = overtaken  # type: ignore[method-assign,assignment]
    assert table.delete("n >= 100").rows == 7
    assert sorted(table.scan(["n"]).to_arrow().column("n").to_pylist()) == list(range(6))
    assert table.audit().findings == ()
    assert list(table.remove_orphan_files(older_than_millis=0).paths) == []


def test_the_maintainer_joins_small_files(tmp_path: Path) -> None:
    table = made(tmp_path, "free", parts=True, **{"write-only": "true"})
    for number in range(8):
        table.write([{"n": number, "p": number % 2}])
    assert table.inspect.files().num_rows == 8
    # Four of each partition are fewer than the least number.
    table.maintain(once=True)
    assert table.inspect.files().num_rows == 8
    table.write([{"n": 9, "p": 0}])
    assert table.maintain(once=True).compactions == 1
    assert table.inspect.files().num_rows == 5
    assert table.scan().count() == 9
