"""Arrow tables of an inspection as lines for people: a head, and one line for each row, in columns.

In: a table. Out: lines. Sizes, times and durations have human units; the head of `size_bytes` is then `size`. Null and
empty values are `-`. Raises nothing.

    column                    head         cell
    size_bytes: 1126          size         1.1 KiB
    age_millis: 4459          age          4.459 s
    a timestamp column        its name     2026-11-27 04:15:29
    a list, a map             its name     a, b; k=v

Values of timestamps are milliseconds: inspections make no columns of other units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from widetable.format.human_units import duration_text, size_text, time_text

NOTHING: Final = "-"
_UNITS: Final[tuple[tuple[str, Callable[[int], str]], ...]] = (
    ("_bytes", size_text),
    ("_millis", duration_text),
)
# These columns are moments, although their names end like durations.
_MOMENTS: Final = ("watermark_millis",)


def frame_lines(frame: pa.Table) -> Iterator[str]:
    """Return a head and a line for each row; numbers are right-aligned. The texts of the whole frame are in memory."""
    columns = [[_head(field.name), *_texts(field, frame[field.name])] for field in frame.schema]
    widths = [max(map(len, column)) for column in columns]
    return aligned(columns, widths, [_is_number(field) for field in frame.schema])


def aligned(
    columns: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]
) -> Iterator[str]:
    """Yield a line for each row of the columns. right: the columns that are right-aligned."""
    for row in zip(*columns, strict=True):
        yield _line(row, widths, right)


# Two blanks between columns, none at the end of a line.
def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = (
        text.rjust(width) if is_right else text.ljust(width)
        for text, width, is_right in zip(row, widths, right, strict=True)
    )
    return "  ".join(cells).rstrip()


def _head(name: str) -> str:
    return next((name.removesuffix(end) for end, _ in _UNITS if name.endswith(end)), name)


def _is_number(field: pa.Field) -> bool:
    return bool(pa.types.is_integer(field.type)) and field.name not in _MOMENTS


def _texts(field: pa.Field, column: pa.ChunkedArray) -> list[str]:
    """Return the texts of a column, by its type, then by the ending of its name. A zone is shown only if it has one."""
    kind = field.type
    if pa.types.is_timestamp(kind) or field.name in _MOMENTS:
        is_utc = not pa.types.is_timestamp(kind) or kind.tz is not None
        return _each(column.cast(pa.int64()), lambda millis: time_text(millis, is_utc=is_utc))
    unit = next((unit for end, unit in _UNITS if field.name.endswith(end)), None)
    return _each(column, unit or _plain)


def _each(column: pa.ChunkedArray, text: Callable[[Any], str]) -> list[str]:
    return [NOTHING if value is None else text(value) for value in column.to_pylist()]


def _plain(value: Any) -> str:
    """Return a struct as `name value` of each field, a map as `key=value`, a list as its parts with commas."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return " ".join(map(_named, value.items()))
    if isinstance(value, tuple):  # an entry of a map
        return f"{value[0]}={value[1]}"
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or NOTHING
    return str(value) or NOTHING


def _named(item: tuple[str, Any]) -> str:
    """Return a field of a struct with its name, because it has no head; a size in bytes has no name."""
    name, value = item
    if name.endswith("_bytes") and value is not None:
        return size_text(value)
    return f"{name} {NOTHING if value is None else value}"
