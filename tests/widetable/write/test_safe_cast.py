"""Any layout of Arrow data gives the values of the plain one; what would lose something is refused by name."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from tests.support.models.bit_patterns import cells, draw_column, draw_type
from widetable.schema.types import DataField, arrow_type
from widetable.schema.types_from_arrow import type_from_arrow
from widetable.write.safe_cast import safe_cast


def create(folder: Path, kind: pa.DataType) -> wt.Table:
    return wt.Catalog(folder).create_table(
        "db.t",
        {"k": pa.int32(), "v": kind},
        primary_key=["k"],
        options={"widetable.fsync": "false"},
    )


def field(kind: pa.DataType) -> DataField:
    return DataField(0, "v", type_from_arrow(kind))


def laid_out(rng: random.Random, array: pa.Array) -> pa.Array:
    """The same values in another layout, parts included."""
    kind, rows = array.type, len(array)
    if pa.types.is_string(kind):
        layouts = (
            pa.large_string(),
            pa.string_view(),
            pa.dictionary(pa.int16(), pa.string()),
            kind,
        )
        chosen = rng.choice(layouts)
        if pa.types.is_dictionary(chosen):
            encoded = array.dictionary_encode()
            views = encoded.dictionary.cast(rng.choice((pa.string_view(), pa.large_string())))
            return pa.DictionaryArray.from_arrays(encoded.indices, views)
        return array.cast(chosen)
    if pa.types.is_binary(kind):
        return array.cast(rng.choice((pa.large_binary(), pa.binary_view(), kind)))
    if pa.types.is_integer(kind):
        least = pc.min(array).as_py()
        return array.cast(pa.int64() if least is None or least < 0 else pa.uint64())
    if pa.types.is_decimal(kind):
        return array.cast(pa.decimal256(70, kind.scale))
    if pa.types.is_struct(kind):
        parts = [laid_out(rng, part) for part in array.flatten()]
        fields = [pa.field(at.name, part.type) for at, part in zip(kind, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    if pa.types.is_map(kind):
        keys, items = laid_out(rng, array.keys), laid_out(rng, array.items)
        found = pa.map_(keys.type, items.type)
        offsets = pa.array(array.offsets.to_numpy(), pa.int32())
        return pa.MapArray.from_arrays(offsets, keys, items, found, mask=array.is_null())
    if pa.types.is_list(kind):
        return laid_out_list(rng, array)
    if rng.random() < 0.3 and rows and not pa.types.is_floating(kind):
        return pc.run_end_encode(array)
    return array


def laid_out_list(rng: random.Random, array: pa.Array) -> pa.Array:
    values, mask = laid_out(rng, array.values), array.is_null()
    offsets = array.offsets.to_numpy()
    kind = rng.choice(("large", "view", "large view", "fixed"))
    if kind == "large":
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, mask=mask)
    size = int(np.diff(offsets).max(initial=0))
    if kind == "fixed" and len(array) * size == len(values) and size:
        return pa.FixedSizeListArray.from_arrays(values, size, mask=mask)
    of, number = (
        (pa.LargeListViewArray, pa.int64())
        if kind == "large view"
        else (pa.ListViewArray, pa.int32())
    )
    starts, sizes = pa.array(offsets[:-1], number), pa.array(np.diff(offsets), number)
    return of.from_arrays(starts, sizes, values, mask=mask)


def test_layouts_of_any_bit_pattern_are_the_same_values(rng: random.Random) -> None:
    """Also slices of them."""
    for _ in range(300):
        kind = draw_type(rng, depth=3)
        whole = draw_column(rng, kind, rng.randint(1, 30))
        other = laid_out(rng, whole)
        first = rng.randrange(len(whole))
        rows = rng.randint(0, len(whole) - first)
        wanted = field(kind)
        target = arrow_type(wanted.type)
        found = safe_cast(other.slice(first, rows), wanted, target)
        found.validate(full=True)
        assert found.type == target
        assert cells(found) == cells(whole.slice(first, rows)), (kind, other.type)


def test_embeddings_of_any_bits_are_stored_as_they_are(tmp_path: Path, rng: random.Random) -> None:
    """In columns that were declared with a fixed size, and without one."""
    rows, width = 20, 768
    bits = np.frombuffer(rng.randbytes(rows * width * 4), np.float32)
    fixed = pa.FixedSizeListArray.from_arrays(
        pa.array(bits), width, mask=pa.array([True, *[False] * 19])
    )
    for kind in (pa.list_(pa.float32(), width), pa.list_(pa.float32())):
        table = create(tmp_path / str(kind), kind)
        assert table.arrow_schema.field("v").type == pa.list_(pa.float32())
        table.write(pa.table({"k": range(rows), "v": fixed}))
        table.write({"k": range(rows, 2 * rows), "v": bits.reshape(rows, width)})
        found = table.scan().to_arrow().sort_by("k")["v"].combine_chunks()
        assert found.null_count == 1
        stored = found.flatten().to_numpy().tobytes()
        assert stored == bits[width:].tobytes() + bits.tobytes()


def test_what_lies_below_a_null_does_not_count(rng: random.Random) -> None:
    values, mask = pa.array([1, 2**40, 3, 4]), pa.array([True, False])
    for array in (
        pa.FixedSizeListArray.from_arrays(values.take(pa.array([1, 0, 2, 3])), 2, mask=mask),
        pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), values, mask=mask),
    ):
        wanted = field(pa.list_(pa.int32()))
        assert safe_cast(array, wanted, arrow_type(wanted.type)).to_pylist() == [None, [3, 4]]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_an_unsigned_value_that_does_not_fit_is_named(tmp_path: Path, bits: int) -> None:
    """Also within a list."""
    unsigned, signed = getattr(pa, f"uint{bits}")(), getattr(pa, f"int{bits}")()
    least = 2 ** (bits - 1)
    for kind, fits, wrong in (
        (signed, least - 1, least),
        (pa.list_(signed), [least - 1], [least]),
    ):
        given = unsigned if kind is signed else pa.list_(unsigned)
        table = create(tmp_path / str(kind), kind)
        table.write(pa.table({"k": [1], "v": pa.array([fits], given)}))
        with pytest.raises(wt.InvalidError, match=f"'v'.*{least}"):
            table.write(pa.table({"k": [2], "v": pa.array([fits, wrong][1:], given)}))
        assert table.scan().to_arrow()["v"].to_pylist() == [fits]


def test_half_floats_become_floats(tmp_path: Path, rng: random.Random) -> None:
    """All of them, bit by bit."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    table = create(tmp_path, pa.float16())
    table.write(pa.table({"k": range(len(halves)), "v": pa.array(halves)}))
    found = table.scan().to_arrow().sort_by("k")["v"].to_numpy()
    assert np.array_equal(found, halves.astype(np.float32), equal_nan=True)


def encoded(values: pa.Array) -> list[pa.Array]:
    """Five rows of three values, or of runs of them, sliced off longer ones."""
    numbers = pa.array([2, 0, 1, None, 1, 1], pa.int8())
    ends = pa.array([2, 5, 7], pa.int16())
    return [
        pa.DictionaryArray.from_arrays(numbers, values)[1:],
        pa.RunEndEncodedArray.from_arrays(ends, values)[1:6],
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
@pytest.mark.parametrize("nulls", [False, True])
def test_dictionaries_and_runs_may_be_of_values_in_any_layout(
    kind: pa.DataType, nulls: bool
) -> None:
    """Views, other dictionaries and runs among them, alone and within lists."""
    texts = ["a", None if nulls else "", "a text that is too long for a view"]
    plain = pa.array(texts, pa.string()).cast(kind)
    is_text = pa.types.is_string(kind)
    values = [
        plain,
        plain.cast(pa.large_string() if is_text else pa.large_binary()),
        plain.cast(pa.string_view() if is_text else pa.binary_view()),
        plain.dictionary_encode(),
        pc.run_end_encode(plain),
    ]
    rows = [[0, 1, None, 1, 1], [0, 1, 1, 1, 2]]
    for each in values:
        for array, numbers in zip(encoded(each), rows, strict=True):
            expected = plain.take(pa.array(numbers, pa.int64()))
            assert safe_cast(array, field(kind), kind).equals(expected)
            lists = pa.ListArray.from_arrays(pa.array([0, 2, 5], pa.int32()), array)
            cast = safe_cast(lists, field(pa.list_(kind)), pa.list_(kind))
            assert cast.flatten().equals(expected)
