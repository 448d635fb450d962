"""The text of what was asked, in the column `_asked` of a served log.

    lookup    {"lookup": ["clicks", "city"]}
    windows   {"windows": {"clicks_7d": ["clicks", "sum", 604800000]}, "tile": "tile", "tile_size": 3600000,
               "empty_zero": false, "coarse": [["/wh/db.db/days", 86400000, 7, "7c1f..", 0], ..]}

Lengths and sizes are in milliseconds. Each coarse table has its directory, the size of its tiles, and the snapshot that
answered: its id, its mark and the schema. Keys stand in this order, so equal requests have equal texts. In: `Asked`.
Out: its text, and back. Pure. Raises DamagedError for a text that is none of these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from widetable.errors import DamagedError, WidetableError
from widetable.operations.windows.served_request import (
    AnsweringSnapshot,
    Asked,
    CoarseTiles,
    Lookup,
    Windows,
)
from widetable.operations.windows.window import window
from widetable.operations.windows.window_plan import MICROS


def text_of(asked: Asked) -> str:
    """Return the text."""
    if isinstance(asked, Lookup):
        return json.dumps({"lookup": asked.columns})
    features = {
        name: [each.column, each.function, each.length_millis] for name, each in asked.features
    }
    coarse = [[each.path, each.size // MICROS, *each.answered] for each in asked.coarse]
    body = {
        "windows": features,
        "tile": asked.tile,
        "tile_size": asked.tile_size // MICROS,
        "empty_zero": asked.empty_zero,
        "coarse": coarse,
    }
    return json.dumps(body)


def asked_of(text: str | None, subject: str) -> Asked:
    """Return what a text says. subject: the log, for errors."""
    try:
        body = json.loads(text or "")
        (kind,) = _FORMS.keys() & body.keys()
        return _FORMS[kind](body)
    except (ValueError, TypeError, KeyError, AttributeError, WidetableError) as cause:
        raise DamagedError(
            f"column '_asked' of {subject}",
            found=repr((text or "")[:200]),
            expected="a request as sessions log it",
            action="Delete the rows that something else has written into the log.",
        ) from cause


def _lookup(body: Mapping[str, Any]) -> Lookup:
    return Lookup(tuple(map(_text, body["lookup"])))


def _windows(body: Mapping[str, Any]) -> Windows:
    features = tuple(
        (name, window(column, function, f"{int(millis)} ms"))
        for name, (column, function, millis) in body["windows"].items()
    )
    coarse = tuple(
        CoarseTiles(_text(path), int(millis) * MICROS, AnsweringSnapshot(id, mark, int(schema_id)))
        for path, millis, id, mark, schema_id in body["coarse"]
    )
    size = int(body["tile_size"]) * MICROS
    return Windows(features, _text(body["tile"]), size, bool(body["empty_zero"]), coarse)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


_FORMS: Final[Mapping[str, Callable[[Mapping[str, Any]], Asked]]] = {
    "lookup": _lookup,
    "windows": _windows,
}
