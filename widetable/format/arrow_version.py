"""Options of the Parquet writer that depend on Arrow's version, and a check of what older versions cannot write.

23   pages are limited by bytes, as before 22, and not by rows as well, which only costs time
22   TIME is marked as adjusted to UTC, as Paimon writes it: an older Arrow cannot do that, so TIME is refused
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from widetable.errors import UnsupportedError
from widetable.format.parquet_layout import ROW_GROUP_ROWS

_ARROW: Final = int(pa.__version__.split(".")[0])
_MARKS_TIMES: Final = 22
_SINCE: Final[tuple[tuple[int, dict[str, Any]], ...]] = (
    (_MARKS_TIMES, {"write_time_adjusted_to_utc": True}),
    (23, {"max_rows_per_page": ROW_GROUP_ROWS}),
)
LATER_OPTIONS: Final = {
    key: value for since, options in _SINCE if since <= _ARROW for key, value in options.items()
}


def check_times(schema: pa.Schema, arrow: int = _ARROW) -> None:
    """Raise UnsupportedError for a schema with TIME values that this Arrow cannot mark. arrow: its major version."""
    for field in schema:
        if arrow < _MARKS_TIMES and _has_time(field.type):
            raise UnsupportedError(
                f"column {field.name!r}",
                found=f"{field.type} and pyarrow {arrow}",
                expected=f"pyarrow {_MARKS_TIMES} or newer, which writes TIME as Paimon does",
                action="Install a newer pyarrow to write this table; reading it needs none.",
            )


def _has_time(kind: pa.DataType) -> bool:
    children = [kind.field(number).type for number in range(kind.num_fields)]
    return pa.types.is_time(kind) or any(_has_time(child) for child in children)
