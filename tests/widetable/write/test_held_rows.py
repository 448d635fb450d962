"""Rows that the caller holds in memory: the files are those of rows that come by a reader, whatever they are like."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from widetable.write import held_rows, table_writer
from widetable.write.held_rows import HeldRows
from widetable.write.write_buffer import WriteBuffer

ROWS = 600
COLUMNS = {
    "region": "STRING",
    "id": "BIGINT",
    "name": "STRING",
    "v": "DOUBLE",
    "amount": "DECIMAL(30, 2)",
    "at": "TIMESTAMP(6)",
    "marks": "ARRAY<INT>",
    "raw": "BYTES",
    "ok": "BOOLEAN",
}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"fields.at.sequence-group": "v,amount"},
    "aggregation": {
        "fields.v.aggregate-function": "sum",
        "fields.marks.aggregate-function": "collect",
    },
    "first-row": {},
}
ORDERED: dict[str, dict[str, str]] = {
    "deduplicate by a sequence": {"merge-engine": "deduplicate", "sequence.field": "at"},
    "partial-update by a sequence": {"merge-engine": "partial-update", "sequence.field": "at"},
    "functions by a sequence": {
        "merge-engine": "aggregation",
        "sequence.field": "at",
        "fields.v.aggregate-function": "sum",
        "fields.name.aggregate-function": "listagg",
    },
    "functions of a group": {
        "merge-engine": "partial-update",
        "fields.at.sequence-group": "v,name",
        "fields.v.aggregate-function": "sum",
        "fields.name.aggregate-function": "listagg",
    },
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "one bucket": {"bucket": "1"},
    "buckets": {"bucket": "3"},
    "partitions": {"bucket": "2", "partition_by": ["region"]},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "250"},
}


@pytest.fixture(autouse=True)
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write is one of many rows."""
    monkeypatch.setattr(table_writer, "FEW_BYTES", 0)


class _Paths:
    """How many buckets were taken from where they lie, and how many from the buffer."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.held = self.buffered = 0
        for owner, name in ((HeldRows, "held"), (WriteBuffer, "buffered")):
            patch.setattr(owner, "take", self._counted(owner.take, name))

    def _counted(self, take: Any, name: str) -> Any:
        def counted(*arguments: Any) -> Any:
            setattr(self, name, getattr(self, name) + 1)
            return take(*arguments)

        return counted


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> _Paths:
    return _Paths(monkeypatch)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each piece that was gathered."""
    noted: list[int] = []
    gathered = HeldRows._gathered

    def measured(self: HeldRows, numbers: Any) -> pa.RecordBatch:
        rows = gathered(self, numbers)
        noted.append(rows.nbytes)
        return rows

    monkeypatch.setattr(HeldRows, "_gathered", measured)
    return noted


def made(folder: Path, name: str, engine: str = "deduplicate", **layout: Any) -> wt.Table:
    options = {"merge-engine": engine, "write-only": "true", "widetable.fsync": "false"}
    layout = {"bucket": "1", **{**ENGINES, **ORDERED}[engine], **layout}
    partitions = layout.pop("partition_by", [])
    return wt.Catalog(str(folder)).create_table(
        f"db.{name}",
        COLUMNS,
        primary_key=["region", "id"],
        partition_by=partitions,
        options={**options, **layout},
    )


def rows(table: wt.Table, rng: random.Random, keys: list[int]) -> pa.Table:
    """Rows of these keys in the table's own types, a third of the values null."""
    count = len(keys)
    bits = np.random.default_rng(rng.getrandbits(32))
    start = datetime.datetime(2026, 1, 1)

    def some(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 1 / 3 else value for value in values]

    data = {
        "region": ["eu" if key % 3 else "us" for key in keys],
        "id": keys,
        "name": some([rng.choice(["", "a", "long " * 9]) for _ in keys]),
        "v": some(bits.integers(-(2**63), 2**63 - 1, count).view(np.float64).tolist()),
        "amount": some([key * 7 for key in keys]),
        "at": [start + datetime.timedelta(hours=rng.randrange(999)) for _ in keys],
        "marks": some([[1] * (key % 4) for key in keys]),
        "raw": some([bits.bytes(key % 5) for key in keys]),
        "ok": some([key % 2 == 0 for key in keys]),
    }
    return pa.table(data, schema=table.scan().arrow_schema.remove_metadata())


def in_batches(rng: random.Random, data: pa.Table, count: int) -> pa.Table:
    ends = sorted(rng.choices(range(data.num_rows + 1), k=count - 1))
    cuts = zip([0, *ends], [*ends, data.num_rows], strict=True)
    return pa.concat_tables([data.slice(start, end - start) for start, end in cuts])


def files_of(table: wt.Table) -> list[dict[str, Any]]:
    """What the files say of their rows."""
    names = [
        "partition", "bucket", "rows", "write_columns", "min_key", "max_key",
        "max_sequence_number", "min_sequence_number",
    ]  # fmt: skip
    files = table.inspect.files().select(names).to_pylist()
    lowest = min(file["min_sequence_number"] for file in files)
    return [
        file | {name: file[name] - lowest for name in names if "sequence" in name} for file in files
    ]


def bits(data: pa.Table) -> pa.Table:
    """Rows in the order of their keys, with numbers whose bits are compared: NaN is not equal to itself."""
    column = data.schema.get_field_index("v")
    numbers = pa.chunked_array([chunk.view(pa.int64()) for chunk in data["v"].chunks], pa.int64())
    return data.set_column(column, "v", numbers).sort_by("id")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [1, 5])
def test_files_are_those_of_the_same_rows_by_a_reader(
    tmp_path: Path, rng: random.Random, paths: _Paths, engine: str, layout: str, count: int
) -> None:
    one, other = (made(tmp_path, name, engine, **LAYOUTS[layout]) for name in ("one", "other"))
    keys = rng.sample(range(-ROWS, ROWS), ROWS)
    data = in_batches(rng, rows(one, rng, keys), count)
    one.write(data)
    assert (paths.held > 0, paths.buffered) == (True, 0)
    other.write(data.to_reader())
    assert paths.buffered > 0
    assert files_of(one) == files_of(other)
    assert bits(one.scan().to_arrow()).equals(bits(other.scan().to_arrow()))
    assert one.audit().ok


HELD: dict[str, Any] = {
    "a table": lambda data: data,
    "a batch": lambda data: data.combine_chunks().to_batches()[0],
    "a frame of pandas": lambda data: data.to_pandas(),
    "a dict of arrays": lambda data: {name: data[name].to_numpy() for name in data.column_names},
}


@pytest.mark.parametrize("form", HELD)
def test_rows_in_memory_are_held_in_each_form(tmp_path: Path, paths: _Paths, form: str) -> None:
    columns = {"id": "BIGINT", "v": "DOUBLE", "n": "INT"}
    options = {"bucket": "2", "write-only": "true"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.n", columns, primary_key=["id"], options=options
    )
    ids = np.random.default_rng(1).permutation(ROWS)
    data = pa.table({"id": ids, "v": ids / 2, "n": ids.astype(np.int32)})
    table.write(HELD[form](data))
    assert (paths.held, paths.buffered) == (2, 0)
    expected = data.sort_by("id").cast(table.scan().arrow_schema)
    assert table.scan().to_arrow().sort_by("id").equals(expected)


@pytest.mark.parametrize("engine", [*ENGINES, *ORDERED])
@pytest.mark.parametrize("count", [1, 5])
def test_keys_that_come_again_are_collapsed_as_in_the_buffer(
    tmp_path: Path,
    rng: random.Random,
    paths: _Paths,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    count: int,
) -> None:
    """In layers where records must stay apart. Pieces end between keys."""
    monkeypatch.setattr(held_rows, "MAX_ROWS", 40)
    one, other = (made(tmp_path, name, engine, bucket="3") for name in ("one", "other"))
    keys = rng.choices(range(ROWS // 3), k=ROWS)
    data = in_batches(rng, rows(one, rng, keys), count)
    one.write(data)
    assert (paths.held, paths.buffered) == (3, 0)
    other.write(data.to_reader())
    assert files_of(one) == files_of(other)
    assert bits(one.scan().to_arrow()).equals(bits(other.scan().to_arrow()))
    assert one.scan().count() == len(set(keys))


@pytest.mark.parametrize("engine", ["partial-update by a sequence", "functions of a group"])
def test_later_layers_that_are_not_kept_are_made_again(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    made_again = []
    others = HeldRows._others

    def counted(self: HeldRows, numbers: Any) -> list[pa.RecordBatch]:
        made_again.append(len(numbers))
        return others(self, numbers)

    monkeypatch.setattr(HeldRows, "_others", counted)
    monkeypatch.setattr(table_writer, "_MAX_SLICE_BYTES", 1)
    one, other = (made(tmp_path, name, engine) for name in ("one", "other"))
    data = in_batches(rng, rows(one, rng, rng.choices(range(ROWS // 3), k=ROWS)), 3)
    one.write(data)
    assert made_again
    other.write(data.to_reader())
    assert files_of(one) == files_of(other)
    assert bits(one.scan().to_arrow()).equals(bits(other.scan().to_arrow()))


@pytest.mark.parametrize("texts", [1, 60])
def test_rows_of_nulls_and_lists_fill_pieces_as_well(
    tmp_path: Path, sizes: list[int], texts: int
) -> None:
    """Offsets take memory, and a slice of a list column has the items of the whole column below it."""
    names = [f"t{number}" for number in range(texts)]
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.n",
        {"id": "BIGINT", "e": "ARRAY<FLOAT>", **dict.fromkeys(names, "STRING")},
        primary_key=["id"],
        options={"bucket": "2", "write-only": "true", "write-buffer-size": "1 mb"},
    )
    ids = np.arange(4000)
    lists = pa.array([[1.5] * (number % 9) for number in ids], pa.list_(pa.float32()))
    data = pa.table({"id": ids, "e": lists, **dict.fromkeys(names, pa.nulls(4000, pa.string()))})
    table.write(data)
    assert len(sizes) > 3
    assert max(sizes) < (32 << 10) + 400
    assert table.scan().to_arrow().sort_by("id")["e"].to_pylist() == lists.to_pylist()


def test_a_bucket_whose_rows_are_of_one_key_goes_through_the_buffer(
    tmp_path: Path, rng: random.Random, paths: _Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be in memory at once."""
    monkeypatch.setattr(held_rows, "MAX_ROWS", 40)
    table = made(tmp_path, "t", bucket="4")
    keys = [*range(ROWS), *[7] * 50]
    table.write(rows(table, rng, keys))
    assert (paths.held, paths.buffered) == (3, 1)
    assert table.scan().count() == ROWS


@pytest.mark.parametrize("count", [1, 9])
@pytest.mark.parametrize("repeats", [False, True])
def test_no_piece_is_larger_than_its_bytes_and_a_row(
    tmp_path: Path,
    rng: random.Random,
    sizes: list[int],
    count: int,
    repeats: bool,
) -> None:
    """Wide rows that lie apart come side by side once they are sorted."""
    options = {"bucket": "2", "write-only": "true", "write-buffer-size": "2 mb"}
    columns = {"id": "BIGINT", "docs": "ARRAY<STRING>"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.n", columns, primary_key=["id"], options=options
    )
    keys = [*range(2000), *range(5)] if repeats else list(range(2000))
    rng.shuffle(keys)
    docs = [["w" * 10_000] * 2 if key < 60 else ["n", None] for key in keys]
    data = pa.table({"id": keys, "docs": pa.array(docs, pa.list_(pa.string()))})
    table.write(in_batches(rng, data, count))
    assert len(sizes) > 10
    assert max(sizes) < (64 << 10) + 2 * 21_000
    assert table.scan().count() == 2000


def test_keys_that_exceed_the_budget_go_through_the_buffer(tmp_path: Path, paths: _Paths) -> None:
    """They are copied to be sorted."""
    options = {"bucket": "2", "write-buffer-size": "1 mb", "write-only": "true"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.n", {"name": "STRING"}, primary_key=["name"], options=options
    )
    for width, held in ((2000, 0), (200, 2)):
        table.write(pa.table({"name": [f"{number:0{width}}" for number in range(1000)]}))
        assert paths.held == held
    assert table.scan().count() == 2000


def test_dicts_with_different_columns_are_cut_by_them(tmp_path: Path, paths: _Paths) -> None:
    """A column that a row lacks is not null, although all columns have the table's types."""
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.n",
        {"id": "BIGINT", "a": "BIGINT", "b": "BIGINT"},
        primary_key=["id"],
        options={"bucket": "1", "merge-engine": "partial-update"},
    )
    table.write([{"id": 1, "a": 1, "b": 1}, {"id": 2, "a": 2, "b": 2}])
    table.write([{"id": 1, "a": 3}, {"id": 2, "b": None}])
    assert table.scan().to_arrow().to_pylist() == [
        {"id": 1, "a": 3, "b": 1},
        {"id": 2, "a": 2, "b": 2},
    ]
    assert not paths.held


def _with_kinds(data: pa.Table) -> pa.Table:
    return data.append_column("_row_kind", pa.array(["+I"] * data.num_rows))


def _without_sequence(data: pa.Table) -> pa.Table:
    return data.set_column(5, "at", pa.nulls(data.num_rows, data["at"].type))


BUFFERED: dict[str, Any] = {
    "rows of which a value is cleared": _without_sequence,
    "a reader": lambda data: data.to_reader(),
    "rows of another type": lambda data: data.set_column(1, "id", data["id"].cast(pa.int32())),
    "rows with kinds": _with_kinds,
    "an iterator": lambda data: iter(data.to_batches()),
}


@pytest.mark.parametrize("form", BUFFERED)
def test_what_cannot_be_held_goes_through_the_buffer(
    tmp_path: Path, rng: random.Random, paths: _Paths, form: str
) -> None:
    table = made(tmp_path, "t", "partial-update")
    data = rows(table, rng, list(range(ROWS)))
    table.write(BUFFERED[form](data))
    assert (paths.held, paths.buffered) == (0, 1)
    assert table.scan().count() == ROWS


def test_rows_in_very_many_batches_go_through_the_buffer(
    tmp_path: Path, rng: random.Random, paths: _Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_writer, "MOST_BATCHES", 2)
    table = made(tmp_path, "t")
    data = rows(table, rng, list(range(ROWS)))
    table.write(in_batches(rng, data, 9))
    assert (paths.held, paths.buffered) == (0, 1)
    assert table.scan().count() == ROWS


def test_rows_whose_numbers_exceed_the_budget_go_through_the_buffer(
    tmp_path: Path, paths: _Paths
) -> None:
    """76 bytes a row while they are sorted; a row of this table has eight."""
    options = {"bucket": "1", "write-buffer-size": "1 mb", "write-only": "true"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.n", {"id": "BIGINT"}, primary_key=["id"], options=options
    )
    for count, held in ((1 << 14, 0), (13_000, 1)):
        table.write(pa.table({"id": np.arange(count)[::-1]}))
        assert paths.held == held
    assert table.scan().count() == 1 << 14


def test_a_null_in_a_key_is_refused_and_leaves_no_file(tmp_path: Path, rng: random.Random) -> None:
    table = made(tmp_path, "t")
    data = rows(table, rng, list(range(ROWS)))
    ids = pa.array([None, *range(1, ROWS)], pa.int64())
    bad = data.set_column(1, pa.field("id", pa.int64()), ids)
    with pytest.raises(wt.InvalidError, match=r"column 'id'.*null in 1 of 600 rows"):
        table.write(bad)
    assert not list(Path(table.path).rglob("*.parquet"))


def test_a_batch_without_a_column_is_refused(tmp_path: Path, rng: random.Random) -> None:
    table = made(tmp_path, "t")
    data = rows(table, rng, list(range(ROWS)))
    twice = data.append_column("v", data["v"])
    with pytest.raises(wt.InvalidError, match="column 'v'"):
        table.write(twice)
    with pytest.raises(wt.InvalidError, match="column 'id'"):
        table.write(data.drop_columns(["id"]))


def test_slices_of_the_callers_rows_are_read_from_their_offsets(
    tmp_path: Path, rng: random.Random, paths: _Paths
) -> None:
    table = made(tmp_path, "t", bucket="2")
    data = rows(table, rng, rng.sample(range(ROWS), ROWS))
    table.write(data.slice(123, 301))
    assert paths.held
    expected = data.slice(123, 301).cast(table.scan().arrow_schema)
    assert bits(table.scan().to_arrow()).equals(bits(expected))
