"""A key as it is typed: `user=7 day=2026-01-31`, or `7` where the key is one column.

In: words, the schema. Out: column to value. Text becomes a value as Arrow casts it, a time as Python reads it, bytes
are hex digits. Raises InvalidError for words that are no value of the column; which columns a key needs is known by who
looks it up.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import time
from typing import Any

import pyarrow as pa

from widetable.errors import InvalidError
from widetable.schema import TableSchema
from widetable.types import arrow_type


def key_of_words(words: Sequence[str], schema: TableSchema) -> dict[str, Any]:
    """Column to value."""
    names = schema.primary_keys
    pairs = [word.partition("=") for word in words]
    if len(words) == len(names) == 1 and pairs[0][0] not in names:
        pairs = [(names[0], "=", words[0])]
    key: dict[str, Any] = {}
    for name, sign, text in pairs:
        if not sign or name not in names or name in key:
            what = f"the column {name!r}" if sign else f"{name!r} without a column"
            raise InvalidError(
                "KEY",
                found=what + (" twice" if sign and name in key else ""),
                expected=f"a value for each of {', '.join(names)}, as in {names[0]}=7",
                action="Correct the key.",
            )
        key[name] = _value(text, name, arrow_type(schema.field(name).type))
    return key


def _value(text: str, name: str, kind: pa.DataType) -> Any:
    try:
        if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
            return bytes.fromhex(text)
        if pa.types.is_time(kind) and time.fromisoformat(text).tzinfo is None:
            return time.fromisoformat(text)
        return pa.array([text]).cast(kind)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as cause:
        raise InvalidError(
            f"column {name!r}",
            found=f"{text!r}",
            expected=f"a value of type {kind}",
            action="Correct the key.",
        ) from cause
