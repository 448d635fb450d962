"""Options of file indexes, by which readers skip data files:

    file-index.<kind>.columns               = <column>[, <column>..]       kind: bloom-filter, bitmap
    file-index.<kind>.<column>.<what>       = <value>                      what: see `_WHATS`
    file-index.in-manifest-threshold, file-index.read.enabled

Source: Paimon `FileIndexOptions`, `BloomFilterFileIndex`, `BitmapFileIndex`. Pure. Raises InvalidError for options that
do not fit the columns, UnsupportedError for indexes that this version does not write. Readers skip files by the indexes
that are there, whatever the options are now.

    file-index.bloom-filter.columns    = user, session        a Bloom filter of each in every data file
    file-index.bloom-filter.user.fpp   = 0.01                 one hundredth of the files without a user is read
    file-index.bitmap.columns          = country              which rows have which country
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from widetable.errors import InvalidError, UnsupportedError
from widetable.schema.option import Option, parse_value
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField

# On disk: never change (Paimon `BloomFilterFileIndexFactory`, `BitmapFileIndexFactory`).
BLOOM_FILTER: Final = "bloom-filter"
BITMAP: Final = "bitmap"

_COLUMNS: Final = re.compile(rf"^file-index\.(?P<kind>{BLOOM_FILTER}|{BITMAP})\.columns$")
# As in Java, the name of a column with an option of its own has no dot.
_OF_COLUMN: Final = re.compile(
    rf"^file-index\.(?P<kind>{BLOOM_FILTER}|{BITMAP})\.(?P<column>[^.]+)\.(?P<what>[^.]+)$"
)
_NUMBERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TIMES: Final = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
_TEXTS: Final = ("CHAR", "VARCHAR")
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    BLOOM_FILTER: (*_NUMBERS, *_TIMES, *_TEXTS, "FLOAT", "DOUBLE", "BINARY", "VARBINARY"),
    BITMAP: (*_NUMBERS, *_TIMES, *_TEXTS, "BOOLEAN"),
}


class BloomFilterOption(NamedTuple):
    """A Bloom filter of a column. most_items: a filter is not made for more different values. false_positives: the
    share of other values that seem to be in the file.
    """

    column: str
    most_items: int = 1_000_000
    false_positives: float = 0.1

    @property
    def kind(self) -> str:
        return BLOOM_FILTER


class BitmapOption(NamedTuple):
    """A bitmap of each value of a column. block_bytes: of the values that a reader loads at once."""

    column: str
    block_bytes: int = 16 << 10

    @property
    def kind(self) -> str:
        return BITMAP


FileIndexOption: TypeAlias = BloomFilterOption | BitmapOption


def is_file_index_option(key: str) -> bool:
    """Return whether a key has the form of an option of an index that this version writes."""
    return bool(_COLUMNS.match(key) or _OF_COLUMN.match(key))


def file_index_options(options: Mapping[str, str]) -> tuple[FileIndexOption, ...]:
    """Return the indexes of each data file, in the order of the options and their columns."""
    indexes: dict[tuple[str, str], FileIndexOption] = {}
    for key, value in options.items():
        match = _COLUMNS.match(key)
        if match is None:
            continue
        for name in value.split(","):
            if not name.strip():
                raise _wrong(key, repr(value), "names of columns, separated by commas")
            index = _DEFAULTS[match["kind"]](name.strip())
            indexes[index.kind, index.column] = index
    for key, value in options.items():
        match = _OF_COLUMN.match(key)
        if match is None or _COLUMNS.match(key):
            continue
        place = match["kind"], match["column"]
        if place not in indexes:
            listed = f"file-index.{place[0]}.columns"
            raise _wrong(key, f"{place[1]!r}, which {listed!r} lacks", f"a column of {listed!r}")
        indexes[place] = _changed(indexes[place], match["what"], key, value)
    return tuple(indexes.values())


def check_file_indexes(schema: TableSchema) -> None:
    """Check that the indexed columns exist, and have types that an index of the kind takes."""
    for index in file_index_options(schema.options):
        key = f"file-index.{index.kind}.columns"
        if index.column not in schema.by_name:
            if index.column.endswith("]"):
                raise UnsupportedError(
                    f"option {key!r}",
                    found=f"{index.column!r}, an entry of a map",
                    expected="columns of the table",
                    action="Leave the entry out, or write the table with another client.",
                )
            columns = f"columns of {', '.join(schema.names)}"
            raise _wrong(key, f"the column {index.column!r}", columns)
        if not takes(index, schema.field(index.column)):
            kind = schema.field(index.column).type
            expected = f"columns of {', '.join(_TYPES[index.kind])}"
            raise _wrong(key, f"{index.column!r} of the type {kind}", expected)


def takes(index: FileIndexOption, column: DataField) -> bool:
    """Return whether an index of the kind can be made of a column."""
    return column.type.root in _TYPES[index.kind]


_DEFAULTS: Final[Mapping[str, Callable[[str], FileIndexOption]]] = {
    BLOOM_FILTER: lambda column: BloomFilterOption(column),
    BITMAP: lambda column: BitmapOption(column),
}


def _changed(index: FileIndexOption, what: str, key: str, value: str) -> FileIndexOption:
    parse = _WHATS[index.kind].get(what)
    if parse is None:
        raise UnsupportedError(
            f"option {key!r}",
            found=f"the value {value!r}",
            expected=f"one of {', '.join(_WHATS[index.kind])} as its last word",
            action="Remove the option, or correct its name.",
        )
    return index._replace(**parse(key, value))


def _items(key: str, value: str) -> dict[str, Any]:
    option = Option[int](key, "integer", 0, "values", "", least=1)
    return {"most_items": parse_value(option, value)}


def _false_positives(key: str, value: str) -> dict[str, Any]:
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if not 0.0 < share < 1.0:
        raise _wrong(key, repr(value), "a number between 0 and 1")
    return {"false_positives": share}


def _block_bytes(key: str, value: str) -> dict[str, Any]:
    option = Option[int].memory_size(key, 0, "", least=64, most=1 << 30)
    return {"block_bytes": parse_value(option, value)}


# The options of a column in an index, and how each is parsed.
_WHATS: Final[Mapping[str, Mapping[str, Callable[[str, str], dict[str, Any]]]]] = {
    BLOOM_FILTER: {"items": _items, "fpp": _false_positives},
    BITMAP: {"index-block-size": _block_bytes},
}


def _wrong(key: str, finding: str, expected: str) -> InvalidError:
    return InvalidError(
        f"option {key!r}", found=finding, expected=expected, action="Correct the option."
    )
