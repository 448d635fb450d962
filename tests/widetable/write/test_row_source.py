"""What users hand over, in any form and layout, is the same rows as a plain Arrow table."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import widetable as wt
from tests.support.models.bit_patterns import draw_column
from tests.support.models.hostile_values import DEEP, nested
from widetable.schema.new_schema import new_schema
from widetable.schema.types import DataField, arrow_type
from widetable.schema.types_from_arrow import type_from_arrow
from widetable.write.row_source import row_source

COLUMNS = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("t", pa.timestamp("us")),
        ("n", pa.decimal128(10, 2)),
        ("e", pa.list_(pa.float32())),
    ]
)
OPTIONS = {"widetable.fsync": "false"}


def create(folder: Path, columns: Any = COLUMNS, name: str = "db.t") -> wt.Table:
    return wt.Catalog(folder).create_table(name, columns, primary_key=["k"], options=OPTIONS)


def some_rows(rng: random.Random, rows: int = 50) -> pa.Table:
    """Every third value or so is null; the list has two values each, as an embedding has."""
    columns = {}
    for field in COLUMNS:
        if field.name == "e":
            values = pa.array(np.array(rng.choices(range(-9, 9), k=2 * rows), np.float32))
            fixed = pa.FixedSizeListArray.from_arrays(values, 2)
            columns["e"] = pa.array(fixed.to_pylist(), field.type)
        elif field.name == "k":
            columns["k"] = pa.array(rng.sample(range(-(2**53), 2**53), rows))
        elif field.name in "fd":
            values = [None if rng.random() < 0.3 else rng.uniform(-1, 1) for _ in range(rows)]
            columns[field.name] = pa.array(values, field.type)
        elif field.name == "t":
            columns["t"] = pa.array([rng.randrange(2**50) for _ in range(rows)], field.type)
        else:
            columns[field.name] = draw_column(rng, field.type, rows)
    return pa.table(columns, schema=COLUMNS)


class OnlyStream:
    """A frame of whoever has the Arrow C stream."""

    def __init__(self, rows: pa.Table | pa.ChunkedArray) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


class OnlyArray:
    def __init__(self, batch: pa.RecordBatch | pa.Array) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


def filtered(frame: pd.DataFrame) -> pd.DataFrame:
    """Of a larger frame, by a mask: its index has holes."""
    larger = pd.concat([frame, frame.iloc[:1], frame.iloc[:2]], ignore_index=True)
    larger = larger.iloc[np.argsort(larger.index % 3, kind="stable")]
    kept = larger[larger.index < len(frame)]
    assert list(kept.index) != list(range(len(frame)))
    return kept


def objects(frame: pd.DataFrame) -> pd.DataFrame:
    """Python's values, with NaN where there is none."""
    found = frame.astype(object)
    return found.where(found.notna(), math.nan)


def frame_of(rows: pa.Table) -> pd.DataFrame:
    """As pandas holds them by default: integers with nulls as floats, decimals and lists as objects."""
    return rows.to_pandas()


FORMS: Mapping[str, Callable[[pa.Table], Any]] = {
    "record batch": lambda rows: rows.combine_chunks().to_batches()[0],
    "reader": lambda rows: rows.to_reader(7),
    "iterator of batches": lambda rows: iter(rows.to_batches(7)),
    "list of tables": lambda rows: [rows.slice(0, 9), rows.slice(9)],
    "C stream": OnlyStream,
    "C array": lambda rows: OnlyArray(rows.combine_chunks().to_batches()[0]),
    "struct array": lambda rows: rows.to_struct_array(),
    "dataset": ds.dataset,
    "scanner": lambda rows: ds.dataset(rows).scanner(batch_size=7),
    "DuckDB": lambda rows: duckdb.from_arrow(rows),
    "polars": polars.from_arrow,
    "dict of polars": lambda rows: polars.DataFrame(rows).to_dict(),
    "frame": frame_of,
    "filtered frame": lambda rows: filtered(frame_of(rows)),
    "frame with text as index": lambda rows: frame_of(rows).set_axis(
        [f"row {at}" for at in range(rows.num_rows)]
    ),
    "frame with the key as index": lambda rows: frame_of(rows).set_index("k"),
    "frame with two levels": lambda rows: frame_of(rows).set_index(["k", "i"]),
    "frame with the key twice": lambda rows: frame_of(rows).set_index("k", drop=False),
    "frame of nullable types": lambda rows: frame_of(rows).convert_dtypes(),
    "frame of Arrow's types": lambda rows: rows.to_pandas(types_mapper=pd.ArrowDtype),
    "frame of categories": lambda rows: frame_of(rows).astype(
        {"i": "category", "s": "category", "t": "category"}
    ),
    "frame of objects": lambda rows: objects(frame_of(rows)),
    "frame of views": lambda rows: frame_of(rows)[::-1][::-1],
    "iterator of frames": lambda rows: (frame_of(rows.slice(at, 9)) for at in range(0, 50, 9)),
    "dicts": lambda rows: rows.to_pylist(),
    "iterator of dicts": lambda rows: iter(rows.to_pylist()),
    "dicts of pandas": lambda rows: frame_of(rows).to_dict("records"),
    "dicts without nulls": lambda rows: [
        {name: value for name, value in row.items() if value is not None}
        for row in rows.to_pylist()
    ],
    "dict of lists": lambda rows: rows.to_pydict(),
    "dict of Arrow columns": lambda rows: dict(zip(rows.column_names, rows.columns, strict=True)),
    "dict of C streams": lambda rows: {name: OnlyStream(rows[name]) for name in rows.column_names},
    "dict of Series": lambda rows: dict(frame_of(rows).items()),
    "dict of Index": lambda rows: {
        name: pd.Index(column) if name != "e" else column.tolist()
        for name, column in frame_of(rows).items()
    },
    "dict of numpy": lambda rows: {
        name: rows[name].to_numpy() if name != "e" else np.array(rows[name].to_pylist())
        for name in rows.column_names
    },
}
# Floats that pandas turned into NaN and Python does not take back for null.
NAN_IS_A_NUMBER = ("dicts of pandas", "dict of numpy")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", ["write", "overwrite", "writer"])
def test_rows_in_any_form_are_the_same_rows(
    tmp_path: Path, form: str, how: str, rng: random.Random
) -> None:
    rows = some_rows(rng)
    if form in NAN_IS_A_NUMBER:
        rows = pa.table(
            {n: rows[n].fill_null(0.5) if n in "fd" else rows[n] for n in rows.column_names}
        )
    plainly, table = create(tmp_path), create(tmp_path, name="db.u")
    plainly.write(rows)
    data = FORMS[form](rows)
    if how == "writer":
        with table.new_writer(rows.column_names) as writer:
            writer.write(data)
            table.commit_append(writer.finish())
    else:
        getattr(table, how)(data)
    assert table.scan().to_arrow().sort_by("k") == plainly.scan().to_arrow().sort_by("k")


KEY_FORMS = [form for form in FORMS if form != "frame with two levels"]


@pytest.mark.parametrize("form", KEY_FORMS)
def test_keys_in_any_form_are_the_same_keys(tmp_path: Path, form: str, rng: random.Random) -> None:
    rows = some_rows(rng)
    table = create(tmp_path)
    table.write(rows)
    wanted = rows.take(pa.array([3, 9, 3, 0])).select(["k"])
    if form == "frame with the key twice":
        keys: Any = frame_of(wanted).set_index("k", drop=False)
    else:
        keys = wanted if form in ("filtered frame", "frame of categories") else FORMS[form](wanted)
    assert table.lookup(keys).select(["k"]).to_pylist() == wanted.to_pylist()


VALUES: Mapping[str, Callable[[list[Any]], Any]] = {
    "Series": lambda keys: pd.Series([0, *keys, 0], name="other")[[1, 3]],
    "Index": pd.Index,
    "nullable": lambda keys: pd.Series([*keys, None], dtype="Int64"),
    "floats of pandas": lambda keys: pd.Series([*keys, None]),
    "objects": lambda keys: pd.Series([*keys, math.nan], dtype=object),
    "categories": lambda keys: pd.Categorical(keys),
    "numpy": np.array,
    "numpy unsigned": lambda keys: np.array(keys, np.uint16),
    "list of numpy": lambda keys: [np.int8(key) for key in keys],
    "C array": lambda keys: OnlyArray(pa.array(keys)),
    "C stream": lambda keys: OnlyStream(pa.chunked_array([keys])),
    "runs": lambda keys: pc.run_end_encode(pa.array(keys)),
    "polars": polars.Series,
    "generator": lambda keys: (key for key in keys),
    "set": dict.fromkeys,
    "levels": lambda keys: pd.MultiIndex.from_arrays([keys], names=["k"]),
}


@pytest.mark.parametrize("form", VALUES)
def test_values_alone_are_keys_of_one_column(tmp_path: Path, form: str) -> None:
    table = create(tmp_path)
    table.write({"k": [1, 2, 3], "s": ["a", "b", "c"]})
    keys = VALUES[form]([3, 1, 3])
    if form == "set":
        keys = keys.keys()
    found = table.lookup(keys, ["s"])["s"].to_pylist()
    expected = {"Series": ["c", "c"], "set": ["c", "a"]}.get(form, ["c", "a", "c"])
    missing = [None] if form in ("nullable", "floats of pandas", "objects") else []
    assert found == expected + missing


def test_levels_of_an_index_are_keys_of_several_columns(tmp_path: Path) -> None:
    columns = {"k": pa.int64(), "s": pa.string(), "v": pa.int32()}
    table = wt.Catalog(tmp_path).create_table(
        "db.t", columns, primary_key=["k", "s"], options=OPTIONS
    )
    frame = pd.DataFrame({"s": ["a", "b", "a"], "k": [1, 1, 2], "v": [5, 6, 7]})
    table.write(frame.set_index(["s", "k"]))
    keys = pd.MultiIndex.from_tuples([("b", 1), ("a", 2), ("b", 2)], names=["s", "k"])
    for given in (keys, frame.set_index(["s", "k"]).index[1:].append(keys[2:])):
        assert table.lookup(given, ["v"])["v"].to_pylist() == [6, 7, None]


# Columns


def test_a_name_that_no_dict_has_is_not_written(tmp_path: Path) -> None:
    table = wt.Catalog(tmp_path).create_table(
        "db.t",
        COLUMNS,
        primary_key=["k"],
        options={**OPTIONS, "merge-engine": "partial-update"},
    )
    table.write([{"k": 1, "s": "kept", "i": 1}, {"k": 2, "i": 2}])
    assert row_source([{"k": 1, "i": 3}, {"k": 2}], table.schema).columns == ("k", "i")
    table.write([{"k": 1, "i": 3}, {"k": 2}])
    found = table.scan(columns=["k", "s", "i"]).to_arrow().sort_by("k").to_pylist()
    assert found == [{"k": 1, "s": "kept", "i": 3}, {"k": 2, "s": None, "i": 2}]


def test_a_name_that_some_dicts_have_is_null_in_the_others(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write({"k": [1, 2], "s": ["a", "b"]})
    table.write([{"k": 1}, {"s": "c", "k": 2}])
    assert table.scan(columns=["s"]).to_arrow()["s"].to_pylist() == [None, "c"]


def test_row_kinds_come_in_any_form(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write({"k": [1, 2, 3]})
    table.write([{"k": 1, "_row_kind": "-D"}])
    table.write(pd.DataFrame({"k": [2], "_row_kind": pd.Categorical(["-D"])})[lambda f: f.k > 1])
    assert table.scan().to_arrow()["k"].to_pylist() == [3]


@pytest.mark.parametrize(
    "data", [[], iter(()), pd.DataFrame({"k": []}), {"k": []}], ids=lambda data: type(data).__name__
)
def test_without_rows_nothing_is_committed(tmp_path: Path, data: Any) -> None:
    assert not create(tmp_path).write(data).committed


def test_a_reader_is_read_as_it_is_written(tmp_path: Path) -> None:
    """A batch is asked for when the one before it is done with."""
    asked: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(5):
            asked.append(at)
            yield pa.record_batch({"k": [at]})

    schema = new_schema(COLUMNS, primary_key=["k"])
    for data in (
        pa.RecordBatchReader.from_batches(pa.schema({"k": pa.int64()}), batches()),
        batches(),
        (batch.to_pandas() for batch in batches()),
    ):
        asked.clear()
        source = row_source(data, schema)
        for at, batch in enumerate(source.batches):
            assert batch.column("k").to_pylist() == [at]
            assert len(asked) <= at + 1
        assert len(asked) == 5


# Values of Python, numpy and pandas


def field(kind: pa.DataType) -> DataField:
    return DataField(0, "v", type_from_arrow(kind))


def written(tmp_path: Path, kind: pa.DataType, values: Any) -> pa.ChunkedArray:
    table = create(tmp_path, {"k": pa.int32(), "v": kind})
    rows = 2 if isinstance(values, OnlyStream) else len(values)
    table.write({"k": range(rows), "v": values})
    return table.scan().to_arrow()["v"]


def numbered(cases: Sequence[tuple[Any, ...]]) -> list[str]:
    return [f"{at}-{case[0]}-of-{type(case[1]).__name__}" for at, case in enumerate(cases)]


TAKEN: Sequence[tuple[pa.DataType, Any, Sequence[Any]]] = [
    (pa.float32(), [0.1, None], [np.float32(0.1), None]),
    (pa.float32(), [math.inf, -math.inf], [math.inf, -math.inf]),
    (pa.float32(), np.array([0.1]), [np.float32(0.1)]),
    (pa.float32(), [1, 2**24], [1, 2**24]),
    (pa.float64(), [1, -(2**53)], [1, -(2**53)]),
    (pa.int32(), np.array([1.0, math.nan]), [1, None]),
    (pa.int32(), [1.0, None, math.nan], [1, None, None]),
    (pa.int32(), [1, pd.NA, None], [1, None, None]),
    (pa.string(), [math.nan, None], [None, None]),
    (pa.string(), np.array([math.nan]), [None]),
    (pa.string(), ["a", math.nan, pd.NA, None], ["a", None, None, None]),
    (pa.string(), pd.Series([math.nan, math.nan]), [None, None]),
    (pa.binary(), [b"a", bytearray(b"b")], [b"a", b"b"]),
    (pa.date32(), pd.Series(pd.to_datetime(["2024-02-29", None])), [dt.date(2024, 2, 29), None]),
    (pa.decimal128(20, 0), [2**63, -1, None], [Decimal(2**63), Decimal(-1), None]),
    (pa.decimal128(5, 2), [3, Decimal("1.5")], [Decimal(3), Decimal("1.5")]),
    (pa.timestamp("us"), [pd.Timestamp(5000), pd.NaT], [dt.datetime(1970, 1, 1, 0, 0, 0, 5), None]),
    (pa.timestamp("us"), [dt.datetime(1, 1, 1), None], [dt.datetime(1, 1, 1), None]),
    (pa.timestamp("ns"), [pd.Timestamp(1)], [pd.Timestamp(1)]),
    (pa.list_(pa.float32()), [[0.5, None], [], None], [[0.5, None], [], None]),
    (pa.list_(pa.float32()), [np.array([1, 2]), [0.5]], [[1, 2], [0.5]]),
    (pa.list_(pa.float32(), 2), np.array([[1, 2], [3, 4]], np.float16), [[1, 2], [3, 4]]),
    (pa.list_(pa.list_(pa.int8())), [[[1], None], None], [[[1], None], None]),
    (pa.map_(pa.string(), pa.int32()), [{"a": 1}, [("b", None)]], [[("a", 1)], [("b", None)]]),
    (
        pa.struct({"a": pa.float32()}),
        OnlyStream(
            pa.chunked_array([[{"a": np.float16(0.5)}, None]], pa.struct({"a": pa.float16()}))
        ),
        [{"a": 0.5}, None],
    ),
    (
        pa.struct({"a": pa.float32(), "b": pa.string()}),
        [{"b": "x", "a": 1}, {"a": None}, None],
        [{"a": 1, "b": "x"}, {"a": None, "b": None}, None],
    ),
]


@pytest.mark.parametrize(("kind", "values", "expected"), TAKEN, ids=numbered(TAKEN))
def test_values_of_python_become_the_type_of_the_column(
    tmp_path: Path, kind: pa.DataType, values: Any, expected: Sequence[Any]
) -> None:
    for at, given in enumerate((values, pd.Series(values) if isinstance(values, list) else values)):
        found = written(tmp_path / str(at), kind, given)
        target = arrow_type(field(kind).type)
        assert found == pa.chunked_array([pa.array(expected, target)])


def test_nan_of_python_is_a_number_where_the_column_has_it(tmp_path: Path) -> None:
    found = written(tmp_path, pa.float64(), [math.nan, None, 1])
    assert found.null_count == 1
    assert math.isnan(found[0].as_py())


WRONG: Sequence[tuple[pa.DataType, Any]] = [
    (pa.float32(), [1e300]),
    (pa.float32(), pd.Series([1.0, 1e300])[1:]),
    (pa.float32(), [2**24 + 1]),
    (pa.float64(), [2**53 + 1]),
    (pa.int32(), [1.5]),
    (pa.int32(), np.array([0.5])),
    (pa.int32(), [True]),
    (pa.int32(), [2**31]),
    (pa.int32(), ["1"]),
    (pa.int64(), [2**63]),
    (pa.int64(), np.array([2**63], np.uint64)),
    (pa.string(), [1]),
    (pa.string(), ["a", 1]),
    (pa.string(), [b"a"]),
    (pa.date32(), [dt.datetime(2024, 1, 1, 1)]),
    (pa.decimal128(5, 2), [0.5]),
    (pa.decimal128(5, 2), [Decimal("0.125")]),
    (pa.timestamp("us"), [pd.Timestamp(1)]),
    (pa.timestamp("us"), [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)]),
    (pa.list_(pa.float32()), [[1e300]]),
    (pa.list_(pa.float32()), np.zeros((1, 1, 1))),
    (pa.list_(pa.int8()), DEEP),
    (pa.list_(pa.int8()), np.array([nested(99), None], object)),
    (pa.list_(pa.int8()), pd.Series([nested(99)])),
    (pa.struct({"a": pa.int8()}), [{"a": 1, "b": 2}]),
    (pa.map_(pa.string(), pa.struct({"a": pa.int8()})), [{"x": {"a": 1, "b": 2}}]),
    (pa.int32(), [object()]),
    (pa.int32(), "1"),
    (pa.int32(), 1),
    (pa.int32(), np.array(1)),
    (pa.int32(), {"a": 1}),
    (pa.int32(), pa.table({"v": [1]})),
]


@pytest.mark.parametrize(("kind", "values"), WRONG, ids=numbered(WRONG))
def test_values_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, kind: pa.DataType, values: Any
) -> None:
    table = create(tmp_path, {"k": pa.int32(), "v": kind})
    with pytest.raises(wt.InvalidError, match="'v'"):
        table.write({"k": [1] * (len(values) if isinstance(values, list) else 1), "v": values})
    assert table.snapshots() == []


def test_what_has_no_rows_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path)
    wrong: list[Any] = [
        None, 5, "text", b"k", [1], ["k"], [(1, "a")], pd.Series([1]), pd.Index([1]), np.array([1]),
        pa.array([1]), object, pa.Table, [pa.array([1])], DEEP,
    ]  # fmt: skip
    for data in wrong:
        with pytest.raises(wt.UnsupportedError, match="data"):
            table.write(data)
    for data in (
        {"k": [1, 2], "s": ["a"]},
        {1: [1]},
        [{1: 1}],
        [{"k": 1}, 2],
        pd.DataFrame({7: [1]}),
    ):
        with pytest.raises(wt.InvalidError):
            table.write(data)
    with pytest.raises(wt.InvalidError, match="twice"):
        table.write(pd.DataFrame([[1, 2]], columns=["k", "k"]))
    assert table.snapshots() == []
