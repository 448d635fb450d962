"""Hypothesis strategies: tables with options, and commits with nulls, ties, late records and every row kind.

Domains are small on purpose: a handful of keys and sequences, so that records meet. `tables` draws schemas that
`engine_of` accepts; `commits` draws what one writer may write: a set of columns, and records in arrival order.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.models.aggregates import (
    collected,
    filled_field,
    filled_values,
    function_of,
    has_irreversible,
    takes_back,
)
from tests.support.models.model import Record
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

_TEXTS = ("", "a", "A", "a\x00", "aa", "ä", "€", "𝄞", "z" * 20, "z" * 20 + "y")

# The first day of the year 10000: past what Python's dates hold. Days and microseconds are numbers here.
_DAY_10_000 = 2_932_897
(_OTHER_NAN,) = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf4\xff")

# Arrow type -> values. All of them have an order; a few values, among them the ends of what is easy to get wrong.
ORDERED: Final[dict[pa.DataType, st.SearchStrategy[Any]]] = {
    pa.int32(): st.sampled_from([-(2**31), -1, 0, 1, 2, 3, 2**31 - 1]),
    pa.int64(): st.sampled_from([-(2**63), -1, 0, 1, 2, 2**53 + 1, 2**63 - 1]),
    pa.string(): st.sampled_from(_TEXTS),
    pa.binary(): st.sampled_from([b"", b"\x00", b"\x00\x00", b"\x7f", b"\xff", b"a" * 30]),
    pa.bool_(): st.booleans(),
    pa.decimal128(12, 2): st.sampled_from(
        [decimal.Decimal(n).scaleb(-2) for n in (-100, -1, 0, 1, 99999)]
    ),
    pa.decimal128(38, 10): st.sampled_from(
        [decimal.Decimal(n).scaleb(-10, decimal.Context(40)) for n in (-(10**37), -1, 0, 1, 2**70)]
    ),
    pa.date32(): st.sampled_from([-(2**31), -1, 0, 20_487, _DAY_10_000, 2**31 - 1]),
    pa.timestamp("us"): st.sampled_from(
        [-(2**63), -60_000_000, 0, _DAY_10_000 * 86_400_000_000, 2**63 - 1]
    ),
    pa.float64(): st.sampled_from(
        [-1.5, -0.0, 0.0, 1.5, float("inf"), float("-inf"), float("nan"), _OTHER_NAN]
    ),
}
UNORDERED: Final[dict[pa.DataType, st.SearchStrategy[Any]]] = {
    pa.list_(pa.field("element", pa.int32())): st.lists(st.none() | st.integers(0, 2), max_size=2),
    pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())]): st.fixed_dictionaries(
        {"x": st.none() | st.integers(0, 2), "y": st.none() | st.sampled_from(_TEXTS)}
    ),
    pa.map_(pa.string(), pa.int32()): st.lists(
        st.tuples(st.sampled_from(["p", "q"]), st.none() | st.integers(0, 2)),
        max_size=2,
        unique_by=lambda pair: pair[0],
    ),
}
_VALUES: Final = {**ORDERED, **UNORDERED}
_SEQUENCES: Final = (pa.int32(), pa.int64(), pa.string(), pa.timestamp("us"), pa.decimal128(12, 2))


# Of a table without a word of it.
ENGINES: Final = (
    *("deduplicate", "partial-update", "partial-update", "partial-update"),
    *("aggregation", "aggregation", "first-row"),
)


@dataclass(frozen=True)
class Commit:
    """What one writer commits: records in arrival order, which carry these columns."""

    columns: tuple[str, ...]
    records: tuple[Record, ...]


@st.composite
def tables(
    draw: st.DrawFn, engine: str | None = None, *, may_have_rowkind_field: bool = False
) -> TableSchema:
    """A table of any engine that is there (or of the named one), with any options that go together."""
    chosen = engine or draw(st.sampled_from(ENGINES))
    keys = [
        pa.field(f"k{i}", draw(st.sampled_from(list(ORDERED))), nullable=False)
        for i in range(draw(st.integers(1, 3)))
    ]
    values = [
        pa.field(
            f"v{i}", draw(st.sampled_from(list(_VALUES))), nullable=draw(st.integers(0, 5)) > 0
        )
        for i in range(draw(st.integers(1, 5)))
    ]
    options = {"merge-engine": chosen}
    grouped: list[pa.Field] = []
    if chosen == "aggregation":
        retracts = draw(st.booleans())
        names = [f"a{i}" for i in range(draw(st.integers(1, 4)))]
        grouped = [draw(filled_field(name, options, retracts=retracts)) for name in names]
        if draw(st.integers(0, 3)) == 0 and "ignore-retract" not in str(options):
            options["aggregation.remove-record-on-delete"] = "true"
    if chosen == "partial-update":
        grouped = draw(_groups(options))
        draw(_removal(options, bool(grouped)))
    may_order = chosen != "first-row"
    orders = draw(_sequence_field(options)) if may_order and draw(st.integers(0, 2)) == 0 else []
    if "remove-record-on-delete" not in str(options) and not any(
        "sequence-group" in o for o in options
    ):
        draw(_filters(options))
    if may_have_rowkind_field and draw(st.integers(0, 3)) == 0:
        options["rowkind.field"] = "kind"
        values.append(pa.field("kind", pa.string(), nullable=False))
    columns = keys + draw(st.permutations(values + grouped + orders))
    return new_schema(pa.schema(columns), primary_key=[f.name for f in keys], options=options)


@st.composite
def _groups(draw: st.DrawFn, options: dict[str, str]) -> list[pa.Field]:
    columns = []
    for g in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):
        sequence = [
            pa.field(f"g{g}s{i}", draw(st.sampled_from(_SEQUENCES)))
            for i in range(draw(st.sampled_from([1, 1, 2])))
        ]
        retracts = draw(st.booleans())
        filled = [
            draw(filled_field(f"g{g}f{i}", options, retracts=retracts))
            for i in range(draw(st.sampled_from([0, 0, 1, 2])))
        ]
        protected = [
            pa.field(
                f"g{g}v{i}",
                draw(st.sampled_from(list(_VALUES))),
                nullable=draw(st.integers(0, 5)) > 0,
            )
            for i in range(draw(st.integers(1, 3)))
        ]
        listed = [f.name for f in protected + filled] + (
            [sequence[0].name] if draw(st.integers(0, 4)) == 0 else []
        )
        options[f"fields.{','.join(f.name for f in sequence)}.sequence-group"] = ",".join(listed)
        columns += sequence + protected + filled
    return columns


@st.composite
def _removal(draw: st.DrawFn, options: dict[str, str], has_groups: bool) -> None:
    if not has_groups:
        option = draw(
            st.sampled_from(["partial-update.remove-record-on-delete", "ignore-delete", None])
        )
        if option is not None:
            options[option] = "true"
        return
    groups = [key.split(".")[1].split(",") for key in options if key.endswith(".sequence-group")]
    removing = draw(st.lists(st.sampled_from(groups), max_size=2, unique_by=tuple))
    if removing:
        named = [draw(st.sampled_from(group)) for group in removing]
        options["partial-update.remove-record-on-sequence-group"] = ",".join(named)


@st.composite
def _sequence_field(draw: st.DrawFn, options: dict[str, str]) -> list[pa.Field]:
    fields = [
        pa.field(f"o{i}", draw(st.sampled_from(_SEQUENCES))) for i in range(draw(st.integers(1, 2)))
    ]
    options["sequence.field"] = ", ".join(f.name for f in fields)
    options["sequence.field.sort-order"] = draw(st.sampled_from(["ascending", "descending"]))
    return fields


@st.composite
def _filters(draw: st.DrawFn, options: dict[str, str]) -> None:
    option = draw(st.sampled_from(["ignore-delete", "ignore-update-before", None, None]))
    if option is not None:
        options[option] = "true"


def drawn_snapshot(data: st.DataObject, ids: Iterable[int]) -> int:
    """One of the ids. What is drawn does not depend on how many there are: files differ by a few bytes from run to run,
    so now and then a pick does, and with it the number of snapshots.
    """
    ordered = sorted(ids)
    return ordered[data.draw(st.integers(0, 1000), label="snapshot") % len(ordered)]


def has_meaningless_retractions(schema: TableSchema) -> bool:
    """Whether a retraction that meets another record is an error there."""
    options = schema.options
    if options.get("ignore-delete") != "true" and (
        options["merge-engine"] == "first-row" or has_irreversible(schema)
    ):
        return True
    return options["merge-engine"] == "partial-update" and not (
        schema.sequence_groups
        or options.get("partial-update.remove-record-on-delete") == "true"
        or options.get("ignore-delete") == "true"
    )


@st.composite
def keys_of(draw: st.DrawFn, schema: TableSchema) -> list[dict[str, Any]]:
    """A few keys, for all commits of a table."""
    key = st.fixed_dictionaries({name: values_of(schema, name) for name in schema.primary_keys})
    return draw(st.lists(key, min_size=1, max_size=5))


@st.composite
def commits(
    draw: st.DrawFn,
    schema: TableSchema,
    keys: Sequence[dict[str, Any]],
    max_records: int = 8,
    min_records: int = 0,
    owned: tuple[str, ...] | None = None,
) -> Commit:
    """One commit of a writer that owns some of the columns: whole groups, and any nullable columns besides.

    owned: these columns; None: drawn.
    """
    if owned is None:
        owned = draw(owned_columns(schema))
    kinds = (
        ["+I", "+I", "+U"]
        if has_meaningless_retractions(schema)
        else ["+I", "+I", "+U", "-D", "-U"]
    )
    values = {
        name: values_of(schema, name)
        if not schema.field(name).type.nullable
        else st.none() | values_of(schema, name)
        for name in owned
        if name not in schema.primary_keys
    }
    kind_column = schema.options.get("rowkind.field")
    if kind_column is not None:
        values[kind_column] = st.sampled_from([*kinds, *map(str.lower, kinds)])
        kinds = ["+I"]
    record = st.tuples(st.sampled_from(kinds), st.sampled_from(keys), st.fixed_dictionaries(values))
    drawn = draw(st.lists(record, min_size=min_records, max_size=max_records))
    records = tuple((kind, {**key, **row}) for kind, key, row in drawn)
    return Commit(owned, tuple(_collectable(schema, records)))


def _collectable(schema: TableSchema, records: Sequence[Record]) -> Iterable[Record]:
    """What `collect` is to take back in a commit that has more of the key, is null."""
    names = collected(schema)
    keys = [[repr(row[name]) for name in schema.primary_keys] for _, row in records]
    for (kind, row), key in zip(records, keys, strict=True):
        said = row.get(schema.options.get("rowkind.field", ""), kind).upper()
        is_shared = said in ("-U", "-D") and keys.count(key) > 1
        taken = {**row, **{n: None for n in names if n in row}} if is_shared else row
        is_empty = said == "-D" and not changes_something(schema, taken)
        yield _as_update_before(schema, kind, taken) if is_empty else (kind, taken)


def changes_something(schema: TableSchema, row: Mapping[str, Any]) -> bool:
    """Whether a -D with these values can have an effect; one that cannot is refused."""
    options = schema.options
    names = [name for group in schema.sequence_groups for name in group.sequence]
    if options["merge-engine"] == "aggregation":
        if options.get("aggregation.remove-record-on-delete") == "true":
            return True
        names = [name for name in schema.names if takes_back(schema, name)]
        if any(function_of(schema, name) in ("last_value", "first_value") for name in names):
            return True
    return not names or any(row.get(name) is not None for name in names)


def _as_update_before(schema: TableSchema, kind: str, row: dict[str, Any]) -> Record:
    """The same retraction of a kind that is always taken."""
    column = schema.options.get("rowkind.field")
    return (kind, {**row, column: "-U"}) if column in row else ("-U", row)


@st.composite
def owned_columns(draw: st.DrawFn, schema: TableSchema) -> tuple[str, ...]:
    """Columns that one writer may carry: `check_columns` lets them pass."""
    owned = {*schema.required_names, *schema.sequence_fields}
    if schema.options["merge-engine"] == "aggregation":
        counting = ("last_value", "first_value")
        owned.update(name for name in schema.names if function_of(schema, name) in counting)
    grouped: set[str] = set()
    for group in schema.sequence_groups:
        grouped.update(group.columns)
        is_drawn = draw(st.booleans())
        if is_drawn or not owned.isdisjoint(group.columns):
            owned.update(group.columns)
    owned.update(name for name in schema.names if name not in grouped and draw(st.booleans()))
    return tuple(name for name in schema.names if name in owned)


def values_of(schema: TableSchema, name: str) -> st.SearchStrategy[Any]:
    """The values of a column, but null."""
    filled = filled_values(schema, name)
    return _VALUES[schema.arrow_schema([name]).field(0).type] if filled is None else filled
