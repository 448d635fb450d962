"""A table sorted for queries has the same rows, in an order by which readers skip files; beside writers, and again."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from tests.append.model import frozen, made, rows_of
from widetable.kernels.curves.curve_keys import hilbert_keys, z_keys
from widetable.lsm import sorted_rewrite
from widetable.lsm.row_curve import KEY_LENGTH, ORDERS, RowCurve
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.maintenance.sort_compact import SortOutcome, SortWork, sort_by
from widetable.write.table_state import TableState


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 5), (2, 4), (3, 3), (4, 2), (5, 1)])
def test_a_curve_visits_each_point_once_and_hilberts_never_jumps(
    dimensions: int, bits: int
) -> None:
    points = np.array(list(product(range(1 << bits), repeat=dimensions)), np.uint64)
    count = len(points)
    z = z_keys(points.copy(), bits)
    assert sorted(z.tolist()) == list(range(count))
    for point, key in zip(points.tolist(), z.tolist(), strict=True):
        text = "".join(str(value >> bit & 1) for bit in reversed(range(bits)) for value in point)
        assert int(text, 2) == key
    hilbert = hilbert_keys(points.copy(), bits)
    assert sorted(hilbert.tolist()) == list(range(count))
    walk = points[np.argsort(hilbert)].astype(np.int64)
    assert all(np.abs(two - one).sum() == 1 for one, two in pairwise(walk))


VALUES = {
    "ints": pa.array([3, None, -5, 2**40, 3, 0, None, 7]),
    "texts": pa.array(["b" * 99 + "b", None, "", "b" * 99 + "a", "ä", "a", "b", None]),
    "doubles": pa.array([0.0, -0.0, float("nan"), None, float("inf"), -1.5, 2.5, 1e-300]),
    "days": pa.array([dt.date(2026, 1, day) if day else None for day in (3, 1, 0, 2, 9, 8, 3, 3)]),
    "flags": pa.array([True, None, False, True, False, None, True, True]),
    "bytes": pa.array([b"\xff", b"", None, b"\x00", b"a", b"ab", b"b", None]),
}


@pytest.mark.parametrize("name", VALUES)
def test_one_column_is_sorted_by_any_order_null_first(name: str) -> None:
    column = VALUES[name]
    ranks = {value: at for at, value in enumerate(_in_order(column))}
    for order, make in ORDERS.items():
        curve = make([column])
        rows = column.take(pa.array(curve.order([column])))
        numbers = [ranks[_bits(value)] for value in rows.to_pylist()]
        assert numbers == sorted(numbers), order
        keys = curve.keys([column])
        assert all(keys[a] <= keys[b] for a, b in pairwise(curve.order([column])))


def _bits(value: object) -> str:
    return value.hex() if isinstance(value, float) else repr(value)


def _in_order(column: pa.Array) -> list[str]:
    """The values in the order that a table has: null, then ascending, -0.0 before 0.0, NaN last."""

    def place(value: object) -> tuple[object, ...]:
        if isinstance(value, float):
            return (value != value, 0.0 if value != value else value, str(value) == "0.0")
        return (value.encode() if isinstance(value, str) else value,)

    values = [value for value in column.to_pylist() if value is not None]
    return ["None", *dict.fromkeys(map(_bits, sorted(values, key=place)))]


def log(folder: Path, rows: int, seed: int, **options: str) -> tuple[wt.Table, pa.Table]:
    rng = random.Random(seed)
    table = wt.Catalog(str(folder)).create_table(
        "db.t",
        {
            "user": "BIGINT",
            "page": "STRING",
            "at": "TIMESTAMP(3)",
            "l": "ARRAY<INT>",
            "v": "DOUBLE",
        },
        options={"widetable.fsync": "false", "write-only": "true", **options},
    )
    data = pa.table(
        {
            "user": [rng.choice([None, int(rng.expovariate(0.001))]) for _ in range(rows)],
            "page": [f"https://example.org/{'x' * 40}/{rng.randrange(500)}" for _ in range(rows)],
            "at": [
                dt.datetime(2026, 1, 1) + dt.timedelta(minutes=rng.randrange(99_999))
                for _ in range(rows)
            ],
            "l": [[rng.randrange(9)] for _ in range(rows)],
            "v": [rng.choice([None, rng.random(), float("nan")]) for _ in range(rows)],
        },
        schema=table.arrow_schema,
    )
    for start in range(0, rows, rows // 4):
        table.write(data.slice(start, rows // 4))
    return table, data


def counts(rows: pa.Table) -> Counter[object]:
    return Counter(map(frozen, rows_of(rows)))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("budget", ["64 mb", "256 kb"])
def test_rows_are_the_same_and_filters_read_fewer_files(
    tmp_path: Path, order: str, budget: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the small budget the rows go over the disk, in ranges."""
    monkeypatch.setattr(sorted_rewrite, "_ROWS_PER_THREAD", 500)
    table, data = log(
        tmp_path, 12_000, 1, **{"write-buffer-size": budget, "target-file-size": "16 kb"}
    )
    by = ["user", "page", "at"]
    before = counts(data)
    assert table.sort_compact(by, order).rows == 12_000
    assert counts(table.scan().to_arrow()) == before
    assert table.audit().findings == ()
    files = table.inspect.files().num_rows
    assert files > 12
    saved = 0
    for condition in (
        "user < 20",
        "page = 'https://example.org/" + "x" * 40 + "/7'",
        "at < '2026-01-03'",
    ):
        scan = table.scan(filter=condition)
        opened = sum(len(split.files) for split in scan.splits())
        saved += files - opened
        assert counts(scan.to_arrow()) == counts(data.filter(_expression(condition)))
    depths = table.inspect.overlap().select(["column", "mean_depth", "files"]).to_pylist()
    (first,) = [row for row in depths if row["column"] == "user"]
    assert first["files"] == files
    assert first["mean_depth"] < (2 if order == "linear" else files / 2)
    assert saved > files * (0.5 if order == "linear" else 1)


def _expression(condition: str) -> pa.compute.Expression:
    name, operator, value = condition.split(maxsplit=2)
    field = pa.compute.field(name)
    if operator == "=":
        return field == value.strip("'")
    bound = int(value) if value.isdigit() else dt.datetime.fromisoformat(value.strip("'"))
    return field < pa.scalar(bound, pa.int64() if isinstance(bound, int) else pa.timestamp("ms"))


def test_linear_order_is_exact_also_over_the_disk(tmp_path: Path) -> None:
    table, _ = log(tmp_path, 8000, 2, **{"write-buffer-size": "128 kb", "target-file-size": "8 kb"})
    table.sort_compact(["user", "at"], "linear")
    rows = [
        (row["user"] is not None, row["user"] or 0, row["at"])
        for row in table.scan(["user", "at"]).to_arrow().to_pylist()
    ]
    assert rows == sorted(rows)


def test_equal_rows_and_nulls_need_no_more_memory(tmp_path: Path) -> None:
    table, _ = log(tmp_path, 400, 3, **{"write-buffer-size": "64 kb"})
    for _ in range(5):
        table.write([{"user": None, "page": "same" * 9}] * 2000)
    for order in ORDERS:
        assert table.sort_compact(["user", "page"], order).rows == 10_400
    assert table.scan().count() == 10_400


def test_partitions_are_sorted_one_by_one_and_a_broken_off_sort_goes_on(tmp_path: Path) -> None:
    table = made(tmp_path, "free", parts=True)
    for number in range(3):
        table.write(
            [{"p": part, "n": n * 7 % 5 + number} for part in (0, 1, None) for n in range(5)]
        )
    done = table.sort_compact(["n"], partitions=[{"p": 1}])
    assert (done.rows, done.files) == (15, 1)
    numbers = table.scan(["n"], "p = 1").to_arrow().column("n").to_pylist()
    assert numbers == sorted(numbers)
    # What a killed call has committed is not sorted again.
    assert table.sort_compact(["n"]).rows == 30
    assert not table.sort_compact(["n"]).committed
    table.write([{"p": None, "n": -1}])
    assert table.sort_compact(["n"]).rows == 16
    # Another order is another sort.
    assert table.sort_compact(["n"], "linear").rows == 46


def test_a_column_that_is_added_meanwhile_keeps_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the plan, and between a plan whose files are gone and the next one."""
    catalog = wt.Catalog(str(tmp_path))
    options = {"widetable.fsync": "false", "write-only": "true"}
    table = catalog.create_table("db.t", {"a": "BIGINT", "b": "INT"}, options=options)
    table.write({"a": [3, 2], "b": [1, 1]})
    perform = SortWork.perform
    names = iter("cd")

    def add_a_column() -> None:
        name = next(names, None)
        if name is not None:
            new = catalog.alter_table("db.t", add_columns={name: "BIGINT"})
            new.write({"a": [1, 0], "b": [1, 1], name: [10, 20]})
            new.compact(full=True)

    def slow_perform(work: SortWork, state: TableState) -> SortOutcome:
        add_a_column()
        return perform(work, state)

    def slow_lease(state: TableState) -> AbstractContextManager[bool]:
        add_a_column()
        return held_lease(state)

    monkeypatch.setattr(SortWork, "perform", slow_perform)
    monkeypatch.setattr(f"{sort_by.__module__}.held_lease", slow_lease)
    table.sort_compact(["a"], "linear")
    rows = catalog.table("db.t").scan().to_arrow()
    assert rows.column("a").to_pylist() == [0, 0, 1, 1, 2, 3]
    for name in "cd":
        values = [value for value in rows.column(name).to_pylist() if value is not None]
        assert sorted(values) == [10, 20]


def test_a_column_that_is_renamed_meanwhile_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table("db.t", {"a": "BIGINT"}, options={"widetable.fsync": "false"})
    table.write({"a": [3, 2]})

    def slow_lease(state: TableState) -> AbstractContextManager[bool]:
        catalog.alter_table("db.t", rename_columns={"a": "b"})
        return held_lease(state)

    monkeypatch.setattr(f"{sort_by.__module__}.held_lease", slow_lease)
    with pytest.raises(wt.NotFoundError, match="'a'"):
        table.sort_compact(["a"])


def test_a_sample_of_long_texts_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column may have more bytes than memory. Texts whose beginnings are longer than a key are sorted all the
    same.
    """
    sizes: list[int] = []
    linear = ORDERS["linear"]

    def noted(sample: Sequence[pa.Array]) -> RowCurve:
        sizes.append(sum(column.nbytes for column in sample))
        return linear(sample)

    monkeypatch.setitem(ORDERS, "linear", noted)
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"s": "STRING"}, options={"write-only": "true", "write-buffer-size": "8 mb"}
    )
    rng = random.Random(5)
    texts = [
        "same " * rng.choice([0, 100]) + f"{rng.randrange(10**6):06}" + "x" * 100_000
        for _ in range(200)
    ]
    for start in range(0, 200, 50):
        table.write({"s": texts[start : start + 50]})
    table.sort_compact(["s"], "linear")
    assert Counter(table.scan().to_arrow()["s"].to_pylist()) == Counter(texts)
    assert len(sizes) == 1
    assert sizes[0] < 200 * (KEY_LENGTH + 8)


def test_writers_go_on_and_a_compaction_of_the_same_files_repeats_the_sort(tmp_path: Path) -> None:
    table, data = log(tmp_path, 400, 4)
    committer = table._committer
    compact = committer.compact
    steps = iter(["compact", "delete", "write"])

    def beside(*given: object, **named: object) -> object:
        step, other = next(steps, ""), wt.Table.open(table.path)
        if step == "compact":
            assert other.compact(full=True).committed
        elif step == "delete":
            other.delete("user IS NULL")
        elif step == "write":
            other.write(data.slice(0, 10))
        return compact(*given, **named)  # type: ignore[arg-type]

    committer.compact = beside  # type: ignore[method-assign,assignment]
    table.sort_compact(["user", "page"])
    expected = counts(data.filter(pa.compute.field("user").is_valid())) + counts(data.slice(0, 10))
    assert counts(table.scan().to_arrow()) == expected
    assert table.audit().findings == ()
    assert list(table.remove_orphan_files(older_than_millis=0).paths) == []


@pytest.mark.parametrize(
    ("by", "order", "kind"),
    [
        ([], "zorder", wt.InvalidError),
        (["n", "n"], "zorder", wt.InvalidError),
        (["l"], "zorder", wt.InvalidError),
        (["q"], "zorder", wt.NotFoundError),
        (["n"], "random", wt.InvalidError),
    ],
)
def test_what_cannot_be_sorted_is_refused(
    tmp_path: Path, by: list[str], order: str, kind: type[Exception]
) -> None:
    table = made(tmp_path, "free", parts=False)
    with pytest.raises(kind):
        table.sort_compact(by, order)


def test_tables_that_have_an_order_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(wt.UnsupportedError, match="bucket = 3"):
        made(tmp_path, "buckets", parts=False).sort_compact(["n"])
    keyed = wt.Catalog(str(tmp_path)).create_table("db.k", {"n": "INT"}, primary_key=["n"])
    with pytest.raises(wt.UnsupportedError, match="primary key n"):
        keyed.sort_compact(["n"])
    with pytest.raises(wt.UnsupportedError, match="primary key n"):
        keyed.update("true", {"n": 1})
