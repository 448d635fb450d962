"""Options of a table that is made of others: the join of which ones, on what, and how; an index of which one.

In: options as string to string. Raises InvalidError for some of them without those that say what is joined.

    join.left = shop.users   join.right = shop.names   join.on = name_id=id, day=day   join.how = left

Users do not give these: `DeltaJoin.create` and the maintainer that makes an index write them into the table that they
make. All but `join.max-matches` are immutable, as the rows that are there were made by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from widetable.errors import InvalidError
from widetable.schema.option import Option

LEFT: Final = Option[str | None].text(
    "join.left",
    None,
    "`db.name` of the left table, in the same warehouse, of the join whose rows this table holds (see "
    "docs/join-two-streams-without-state.md). Only the join writes such a table.",
    immutable=True,
)
RIGHT: Final = Option[str | None].text(
    "join.right", None, "`db.name` of the right table of the join.", immutable=True
)
ON: Final = Option[tuple[str, ...]].names(
    "join.on",
    (),
    "Columns that are equal in both tables of the join, as `left=right`.",
    immutable=True,
)
HOW: Final = Option[str].enum(
    "join.how",
    "inner",
    ("inner", "left"),
    "`inner`: rows that have a match; `left`: all rows of the left table, with nulls where there is none.",
    immutable=True,
)
MAX_MATCHES: Final = Option[int](
    "join.max-matches",
    "integer",
    100_000,
    "rows",
    "With more rows of one join key than this, on either side or together, the join stops and names the key.",
    least=1,
)

INDEX_OF: Final = Option[str | None].text(
    "widetable.index-of",
    None,
    "`db.name` of the table that this one is an index of. Set by the maintainer that makes the index (option "
    "`index.<columns>` of that table), which is its only writer.",
    immutable=True,
)

JOIN_OPTIONS: Final[tuple[Option[Any], ...]] = (LEFT, RIGHT, ON, HOW, MAX_MATCHES)
OPTIONS_OF_MADE: Final[tuple[Option[Any], ...]] = (*JOIN_OPTIONS, INDEX_OF)
_NEEDED: Final = (LEFT, RIGHT, ON)


def check_join(options: Mapping[str, str]) -> None:
    """None of them means anything without the three that say what is joined. Only that they are there is seen here;
    what they say is read by `derive.joined_plan`.
    """
    given = [option.key for option in JOIN_OPTIONS if option.key in options]
    missing = [option.key for option in _NEEDED if option.key not in options]
    if given and missing:
        raise InvalidError(
            f"option {given[0]!r}",
            found=f"it without {missing[0]!r}",
            expected=f"all of {', '.join(option.key for option in _NEEDED)}",
            action="Make the table with DeltaJoin.create, or `widetable join add`.",
        )
