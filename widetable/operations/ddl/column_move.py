"""Moves a column among the others, or a field among those of its ROW, to the place that a text gives.

    place  := "first" | "last" | ("after" | "before") name      words in any case

    of a, b, c    b first        b a c        c before b    a c b
                  b AFTER c      a c b        b last        a c b

The name is that of another column, or of another field of the same ROW, before the change. Source: Paimon
`SchemaChange.Move`, `SchemaManager.applyMove`. Raises InvalidError for other texts, NotFoundError for other names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from widetable.errors import InvalidError, NotFoundError
from widetable.operations.ddl.column_path import Path, parsed, printed
from widetable.schema.types import DataField

_PLACE: Final = re.compile(r"\s*(?:(first|last)|(after|before)\s+(\S.*?))\s*", re.I | re.DOTALL)
# The name before the change, and the field after it.
Entry: TypeAlias = tuple[str, DataField]


def moved(entries: Sequence[Entry], path: Path, place: str) -> list[Entry]:
    """Return the entries with the one at the end of the path moved to the place of the text.

    Several moves are made one after the other.
    """
    match = _PLACE.fullmatch(place)
    if match is None:
        raise _no_place(path, repr(place))
    index = next(at for at, (name, _) in enumerate(entries) if name == path[-1])
    left = [*entries[:index], *entries[index + 1 :]]
    if match[1] is not None:
        target = 0 if match[1].lower() == "first" else len(left)
    else:
        target = _index(left, path, match[3]) + (match[2].lower() == "after")
    return [*left[:target], entries[index], *left[target:]]


def _index(entries: Sequence[Entry], path: Path, text: str) -> int:
    names = [name for name, _ in entries]
    target = text
    # A text that is a whole name needs no backticks, whatever dots it has; else it is a path within
    # the same ROW.
    if text not in names:
        *outer, target = parsed(text)
        if outer and tuple(outer) != path[:-1]:
            raise _no_place(path, f"{text!r}, which lies elsewhere")
    if target == path[-1]:
        raise _no_place(path, "itself")
    if target not in names:
        raise NotFoundError(
            f"the place of column {printed(path)!r}",
            found=f"no {target!r} beside it",
            expected=f"one of {', '.join(names)}",
            action="Correct the name.",
        )
    return names.index(target)


def _no_place(path: Path, actual: str) -> InvalidError:
    return InvalidError(
        f"the place of column {printed(path)!r}",
        found=actual,
        expected="'first', 'last', 'after <name>' or 'before <name>', of another column or field beside it",
        action="Correct the place.",
    )
