"""Cases 12, 13 and 17 of the loader, as batches of numpy: order, resuming, nulls, and what keeps the snapshot."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widetable as wt
from tests.support.faults.forked import in_a_child
from tests.support.models.plain_rows import plain, python_rows
from tests.support.models.random_table import data_of, make, stamped_commits, table_specs
from tests.support.tables.fixture_tables import ROOT
from widetable.commit.holds.read_lease import held_snapshots
from widetable.derive.loading.piece import KeyRangePiece, RowGroupPiece
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

PIECES, PIECE_ROWS = 10, 1000
ROWS = PIECES * PIECE_ROWS
COLUMNS = {"k": "BIGINT", "v": "DOUBLE"}


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("widetable.format.data_file_writer.ROW_GROUP_ROWS", PIECE_ROWS)


def create(folder: Path, **options: str) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t", COLUMNS, primary_key=["k"], options={"bucket": "1"} | options
    )


def numbered(keys: range) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(keys, pa.float64())})


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    """A bucket of ten row groups of a thousand rows."""
    made = create(tmp_path)
    made.write(numbered(range(ROWS)))
    made.compact(full=True)
    return made


def keys(batches: Any) -> list[list[int]]:
    return [batch["k"].tolist() for batch in batches]


def flat(batches: list[list[int]]) -> list[int]:
    return [key for batch in batches for key in batch]


def of_workers(
    table: wt.Table, world: int, workers: int, **arguments: Any
) -> list[list[list[int]]]:
    """The batches of each worker of each rank; each rank has a loader of its own, and its workers pickles of it."""
    given = []
    for rank in range(world):
        with table.to_batches(["k"], rank=rank, world=world, **arguments) as loader:
            for worker in range(workers):
                copy = pickle.loads(pickle.dumps(loader))
                given.append(keys(copy.batches_of_worker(worker, workers)))
    return given


def test_pieces_are_row_groups(table: wt.Table) -> None:
    with table.to_batches() as loader:
        pieces = loader._pinned.pieces
        assert [piece.rows for piece in pieces] == [PIECE_ROWS] * PIECES
        assert {type(piece) for piece in pieces} == {RowGroupPiece}


def test_case_12_two_ranks_of_two_workers(table: wt.Table) -> None:
    """Every row at most once with "drop", at least once with "repeat"; as many batches everywhere."""
    for rows, even in ((ROWS, "drop"), (ROWS, "repeat"), (ROWS + 1, "drop"), (ROWS + 1, "repeat")):
        if rows > ROWS and even == "drop":
            table.write(numbered(range(ROWS, rows)))
        of_each = of_workers(table, 2, 2, shuffle_seed=1, even=even, batch_rows=300)
        assert len({tuple(map(len, batches)) for batches in of_each}) == 1
        given = [key for batches in of_each for key in flat(batches)]
        if even == "drop":
            assert len(set(given)) == len(given) == rows // 4 * 4
        else:
            assert set(given) == set(range(rows))


def test_case_12_seeds_and_epochs(table: wt.Table) -> None:
    first = keys(table.to_batches(["k"], shuffle_seed=1))
    loader = table.to_batches(["k"], shuffle_seed=1)
    assert keys(loader) == first
    second = keys(loader)  # the next epoch
    assert second != first
    assert sorted(flat(second)) == sorted(flat(first)) == list(range(ROWS))
    loader.set_epoch(0)
    assert keys(loader) == first
    loader.set_epoch(1)
    assert keys(loader) == second


def test_case_12_a_stopped_epoch_goes_on(table: wt.Table) -> None:
    loader = table.to_batches(["k"], shuffle_seed=1, batch_rows=700)
    batches = iter(loader)
    begun = [next(batches)["k"].tolist() for _ in range(3)]
    state = json.loads(json.dumps(loader.state_dict()))
    rest = keys(batches)
    table.write(numbered(range(ROWS, 2 * ROWS)))
    table.compact(full=True)
    other = table.to_batches(
        ["k"], shuffle_seed=1, batch_rows=700, snapshot_id=state["snapshot_id"]
    )
    other.load_state_dict(state)
    assert keys(other) == rest
    assert sorted(flat(begun + rest)) == list(range(ROWS))


def test_case_12_what_is_written_meanwhile_does_not_appear(table: wt.Table) -> None:
    """Rows are written, compacted and expired; a copy in a forked process goes on, too."""
    loader = table.to_batches(["k", "v"], shuffle_seed=4, batch_rows=999)
    expected = keys(table.to_batches(["k"], shuffle_seed=4, batch_rows=999))
    batches = iter(loader)
    begun = [next(batches)["k"].tolist()]
    for shift in range(1, 4):
        table.write(pa.table({"k": pa.array(range(ROWS + shift)), "v": [-1.0] * (ROWS + shift)}))
        table.compact(full=True)
    table.expire_snapshots(1, 1, 0)
    assert next(snapshot.id for snapshot in table.snapshots()) == loader.snapshot_id
    rest = list(batches)
    assert begun + keys(rest) == expected
    assert all((batch["v"] == batch["k"]).all() for batch in rest)
    loader.set_epoch(0)

    def go_on() -> None:
        assert keys(loader) == expected

    assert os.waitpid(in_a_child(go_on), 0)[1] == 0
    assert held_snapshots(LocalFileIO(), TablePaths(table.path)) == [loader.snapshot_id]
    loader.close()


def test_the_snapshot_is_kept_until_the_loader_is_closed(table: wt.Table) -> None:
    loader = table.to_batches()
    paths = TablePaths(table.path)
    assert held_snapshots(LocalFileIO(), paths) == [loader.snapshot_id]
    loader.close()
    assert held_snapshots(LocalFileIO(), paths) == []


@pytest.mark.parametrize("kept_by_tag", [False, True])
def test_a_state_of_an_expired_snapshot(table: wt.Table, kept_by_tag: bool) -> None:
    """It is refused by name, unless a tag keeps the snapshot."""
    if kept_by_tag:
        table.create_tag("training")
    tag = "training" if kept_by_tag else None
    with table.to_batches(["k"], tag=tag, shuffle_seed=1) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        rest = keys(batches)
    table.write(numbered(range(1)))
    table.write(numbered(range(2)))
    table.expire_snapshots(1, 1, 0)
    with table.to_batches(["k"], shuffle_seed=1) as loader:
        newest = loader.snapshot_id
        if kept_by_tag:
            loader.load_state_dict(state)
            assert keys(loader) == rest
            return
        with pytest.raises(wt.NotFoundError, match="expired") as raised:
            loader.load_state_dict(state)
        assert raised.value.code == "WT-E204"
        assert f"snapshot {state['snapshot_id']}" in raised.value.subject
        assert loader.snapshot_id == newest
        assert len(flat(keys(loader))) == ROWS


@pytest.mark.parametrize("even", ["drop", "repeat"])
def test_case_17_elastic(table: wt.Table, even: str) -> None:
    """1 x 4, 2 x 2 and 4 x 1 ranks and workers see the same global batches, resumed after 7 with other numbers, too."""
    arguments: dict[str, Any] = {
        "shuffle_seed": 5,
        "global_batch": 1024,
        "even": even,
        "shuffle_groups": 8,
    }
    expected = keys(table.to_batches(["k"], **arguments))
    assert len(expected) == (9 if even == "drop" else 10)
    assert {len(batch) for batch in expected} == {1024}
    for world, workers in ((1, 4), (2, 2), (4, 1)):
        assert global_batches(table, world, workers, None, arguments) == expected
    with table.to_batches(["k"], **arguments) as loader:
        state = loader.state_dict(batches=7)
    for world, workers in ((1, 1), (2, 1), (3, 2), (8, 1)):
        assert global_batches(table, world, workers, state, arguments) == expected[7:]


def global_batches(
    table: wt.Table,
    world: int,
    workers: int,
    state: dict[str, Any] | None,
    arguments: dict[str, Any],
) -> list[list[int]]:
    """The global batches, put together from those of all ranks, each with these workers."""
    ranks = []
    for rank in range(world):
        with table.to_batches(["k"], rank=rank, world=world, **arguments) as loader:
            if state is not None:
                loader.load_state_dict(state)
            copies = [pickle.loads(pickle.dumps(loader)) for _ in range(workers)]
            of_each = [
                keys(copy.batches_of_worker(worker, workers)) for worker, copy in enumerate(copies)
            ]
        turns = chain.from_iterable(zip_longest(*of_each))
        ranks.append([batch for batch in turns if batch is not None])
    return [flat(list(parts)) for parts in zip(*ranks, strict=True)]


@pytest.mark.parametrize("arguments", [{}, {"global_batch": 1000}])
def test_a_worker_goes_on_by_its_own_state(table: wt.Table, arguments: dict[str, Any]) -> None:
    """As StatefulDataLoader does it: each worker saves and loads its own, at whatever batch it is."""
    loader = table.to_batches(["k"], shuffle_seed=1, **arguments)
    for begun in (0, 3):
        loader.load_state_dict(loader.state_dict(batches=begun, workers=2))
        for worker in range(2):
            whole = pickle.loads(pickle.dumps(loader))
            expected = keys(whole.batches_of_worker(worker, 2))
            for count in range(len(expected) + 1):
                stopped = pickle.loads(pickle.dumps(loader))
                batches = stopped.batches_of_worker(worker, 2)
                assert keys(next(batches) for _ in range(count)) == expected[:count]
                if count == len(expected):
                    assert next(batches, None) is None  # which does not begin the next epoch
                state = stopped.state_dict()
                other = pickle.loads(pickle.dumps(loader))
                other.load_state_dict(state)
                assert keys(other.batches_of_worker(worker, 2)) == expected[count:]


def test_the_end_of_an_epoch_is_the_beginning_of_the_next(table: wt.Table) -> None:
    loader = table.to_batches(["k"], shuffle_seed=1, global_batch=1000)
    keys(loader)
    state = loader.state_dict()
    assert (state["epoch"], state["batches"]) == (1, 0)
    other = table.to_batches(["k"], shuffle_seed=1, global_batch=1000)
    other.load_state_dict(state)
    assert keys(other) == keys(loader)


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        ({"shuffle_seed": 2}, "seed"),
        ({"world": 3}, "world"),
        ({"filter": "k < 10"}, "rows"),
        ({"batch_rows": 7}, "batch_rows"),
        ({"shuffle_groups": 7}, "shuffle_groups"),
        ({"even": "repeat"}, "even"),
        ({"global_batch": 10}, "global_batch"),
    ],
)
def test_a_state_of_another_order_is_refused(
    table: wt.Table, change: dict[str, Any], subject: str
) -> None:
    arguments: dict[str, Any] = {"shuffle_seed": 1}
    state = table.to_batches(["k"], **arguments).state_dict(batches=1)
    other = table.to_batches(["k"], **arguments | change)
    with pytest.raises(wt.InvalidError, match=f"^{subject} of the state"):
        other.load_state_dict(state)


def test_a_state_of_another_number_of_workers_is_refused(table: wt.Table) -> None:
    loader = table.to_batches(["k"], shuffle_seed=1)
    loader.load_state_dict(loader.state_dict(batches=2, workers=2))
    with pytest.raises(wt.InvalidError, match=r"^workers of the state.*global_batch"):
        loader.batches_of_worker(0, 3)
    with pytest.raises(wt.InvalidError, match=r"^state: found no seed"):
        loader.load_state_dict({})


class TestCase13Nulls:
    """DOUBLE with nulls."""

    @pytest.fixture
    def table(self, tmp_path: Path) -> wt.Table:
        made = create(tmp_path)
        made.write(
            pa.table(
                {"k": pa.array(range(10)), "v": [None if k == 7 else k / 2 for k in range(10)]}
            )
        )
        made.compact(full=True)
        return made

    def test_error_at_the_batch(self, table: wt.Table) -> None:
        batches = iter(table.to_batches(batch_rows=5))
        with pytest.raises(wt.InvalidError, match=r"^column 'v': found 1 null in 10 rows"):
            next(batches)
        assert len(keys(table.to_batches(["k"]))) == 1
        assert len(keys(table.to_batches(filter="v is not null"))) == 1

    def test_error_before_the_first_batch_where_the_manifest_knows(self, tmp_path: Path) -> None:
        """Java counts nulls in manifests; its table has one in `c_d`, a DOUBLE."""
        shutil.copytree(ROOT / "wh_java/fx.db/all_types", tmp_path / "all_types")
        made = wt.Table.open(tmp_path / "all_types")
        with pytest.raises(wt.InvalidError, match=r"^column 'c_d'"):
            iter(made.to_batches(["k", "c_d"]))
        assert len(list(made.to_batches(["k", "c_d"], null="mask"))) == 1

    def test_error_before_the_first_batch_for_a_column_that_files_lack(
        self, table: wt.Table, tmp_path: Path
    ) -> None:
        wt.Catalog(str(tmp_path)).alter_table("db.t", add_columns={"w": "INT"})
        with pytest.raises(wt.InvalidError, match=r"^column 'w'"):
            iter(table.to_batches(["k", "w"]))

    def test_mask_equals_is_valid(self, table: wt.Table) -> None:
        (batch,) = table.to_batches(null="mask")
        assert list(batch) == ["k", "v", "v__valid"]
        rows = table.scan().to_arrow()
        assert batch["v__valid"].tolist() == rows["v"].is_valid().to_pylist()
        assert batch["v"].tolist() == [value or 0.0 for value in rows["v"].to_pylist()]

    def test_a_value_stands_for_nulls(self, table: wt.Table) -> None:
        (batch,) = table.to_batches(null={"v": -1})
        assert batch["v"].tolist() == [-1 if k == 7 else k / 2 for k in range(10)]


@given(st.data())
def test_batches_are_the_rows_of_a_scan(data: st.DataObject) -> None:
    """Of any table: overlapping files or compacted ones, with a filter or without, at any snapshot."""
    spec = data.draw(table_specs(), "spec")
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("widetable.format.data_file_writer.ROW_GROUP_ROWS", 2)
        table = make(folder, spec)
        for _ in range(data.draw(st.integers(0, 5), "commits")):
            table.write(data_of(spec.schema, data.draw(stamped_commits(spec.schema, spec.keys))))
            if data.draw(st.integers(0, 2), "compact") == 0:
                table.compact(full=data.draw(st.booleans()))
        key = spec.primary_key[-1]
        condition = data.draw(st.sampled_from([None, f"{key} is not null", f"{key} is null"]))
        seed = data.draw(st.none() | st.integers(0, 9), "seed")
        for snapshot in table.snapshots():
            expected = table.scan(filter=condition, snapshot_id=snapshot.id).to_arrow()
            with table.to_batches(
                filter=condition,
                snapshot_id=snapshot.id,
                form="arrow",
                batch_rows=data.draw(st.integers(1, 5)),
                shuffle_seed=seed,
                shuffle_groups=data.draw(st.integers(1, 3)),
            ) as loader:
                batches = list(loader)
                assert loader.rows == expected.num_rows
            given = pa.Table.from_batches(batches, expected.schema)
            rows, wanted = shown(given), shown(expected)
            assert rows == wanted if seed is None else sorted(rows) == sorted(wanted)


def shown(rows: pa.Table) -> list[str]:
    return [repr(plain(row)) for row in python_rows(rows)]


def test_overlapping_files_are_read_by_ranges_of_keys(tmp_path: Path, rng: random.Random) -> None:
    """Cut where row groups begin; each range merges only the files that have keys of it."""
    made = create(tmp_path, **{"write-only": "true"})
    made.write(numbered(range(ROWS)))
    for low in (0, 4500, 9900):
        changed = numbered(range(low, low + 200))
        made.write(changed.set_column(1, "v", pa.array([-1.0] * 200)))
    with made.to_batches(shuffle_seed=rng.randrange(9)) as loader:
        pieces = [piece for piece in loader._pinned.pieces if isinstance(piece, KeyRangePiece)]
        assert len(pieces) == len(loader._pinned.pieces) == PIECES
        assert max(len(piece.files) for piece in pieces) == 2
        batches = list(loader)
    given = sorted(
        (k, v) for b in batches for k, v in zip(b["k"].tolist(), b["v"].tolist(), strict=True)
    )
    rows = made.scan().to_arrow()
    assert given == list(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


def test_rows_that_a_deletion_vector_marks_are_left_out(tmp_path: Path) -> None:
    made = create(tmp_path, **{"deletion-vectors.enabled": "true", "changelog-producer": "lookup"})
    made.write(numbered(range(3000)))
    made.compact(full=True)
    made.write(numbered(range(500, 1500)))
    with made.to_batches(["k"], shuffle_seed=1) as loader:
        assert loader.rows == 3000
        assert sorted(flat(keys(loader))) == list(range(3000))


def test_an_empty_table_has_no_batches(tmp_path: Path) -> None:
    made = create(tmp_path)
    choices: list[dict[str, Any]] = [{}, {"global_batch": 8}, {"even": "repeat", "world": 3}]
    for arguments in choices:
        with made.to_batches(**arguments) as loader:
            assert (len(loader), list(loader), loader.snapshot_id) == (0, [], None)


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        ({"columns": []}, "columns"),
        ({"batch_rows": 0}, "batch_rows"),
        ({"rank": 2, "world": 2}, "rank"),
        ({"global_batch": 2, "world": 3}, "global_batch"),
        ({"even": "keep"}, "even"),
        ({"null": "zero"}, "null"),
        ({"null": {"w": 1}}, "null"),
        ({"null": {"v": "x"}}, "null of column 'v'"),
        ({"null": {"v": None}}, "null of column 'v'"),
        ({"vocabularies": {"v": ["a"]}}, "vocabulary of column 'v'"),
        ({"form": "pandas"}, "form"),
        ({"form": "arrow", "null": "mask"}, "null and vocabularies"),
        ({"shuffle_seed": -1}, "shuffle_seed"),
    ],
)
def test_wrong_arguments_are_refused(
    table: wt.Table, arguments: dict[str, Any], subject: str
) -> None:
    with pytest.raises(wt.InvalidError) as raised:
        table.to_batches(**arguments)
    assert raised.value.subject.startswith(subject)
    assert held_snapshots(LocalFileIO(), TablePaths(table.path)) == []
