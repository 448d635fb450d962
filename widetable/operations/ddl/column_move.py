"""Where a column goes among the others, or a field among those of its ROW, as a text says.

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
    """The entries, with the one that the path ends with where the text says.

    Of several moves each is made among what the one before left.
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
    wanted = text
    # A text that is a whole name needs no backticks, whatever dots it has; else it is a path, to
    # the same place.
    if text not in names:
        *outer, wanted = parsed(text)
        if outer and tuple(outer) != path[:-1]:
            raise _no_place(path, f"{text!r}, which lies elsewhere")
    if wanted == path[-1]:
        raise _no_place(path, "itself")
    if wanted not in names:
        raise NotFoundError(
            f"the place of column {printed(path)!r}",
            found=f"no {wanted!r} beside it",
            expected=f"one of {', '.join(names)}",
            action="Correct the name.",
        )
    return names.index(wanted)


def _no_place(path: Path, found: str) -> InvalidError:
    return InvalidError(
        f"the place of column {printed(path)!r}",
        found=found,
        expected="'first', 'last', 'after <name>' or 'before <name>', of another column or field beside it",
        action="Correct the place.",
    )
