"""Options of derived tables: the tables, columns and kind of a join; the table of an index, and of a history.

In: options as string to string. Raises InvalidError for join options without those that name the tables and columns.

    join.left = shop.users   join.right = shop.names   join.on = name_id=id, day=day   join.how = left

Users do not set these: `DeltaJoin.create`, and the maintainer that creates an index, set them in the table that they
create. All but `join.max-matches` are immutable, because the existing rows depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from widetable.errors import InvalidError
from widetable.schema.option import Option

LEFT: Final = Option[str | None].text(
    "join.left",
    None,
    "`db.name` of the left table, in the same warehouse, of the join whose rows this table contains (see "
    "docs/join-two-streams-without-state.md). Only the join writes such a table.",
    immutable=True,
)
RIGHT: Final = Option[str | None].text(
    "join.right", None, "`db.name` of the right table of the join.", immutable=True
)
ON: Final = Option[tuple[str, ...]].names(
    "join.on",
    (),
    "Columns that must be equal in both tables of the join, as `left=right`.",
    immutable=True,
)
HOW: Final = Option[str].enum(
    "join.how",
    "inner",
    ("inner", "left"),
    "`inner`: rows with a match; `left`: all rows of the left table, with nulls if there is no match.",
    immutable=True,
)
MAX_MATCHES: Final = Option[int](
    "join.max-matches",
    "integer",
    100_000,
    "rows",
    "If a join key has more rows than this, on one side or joined, the join stops with an error that names the key.",
    least=1,
)

INDEX_OF: Final = Option[str | None].text(
    "widetable.index-of",
    None,
    "`db.name` of the table that this table indexes. The maintainer that creates the index (option `index.<columns>` "
    "of that table) sets it; it is the only writer.",
    immutable=True,
)

HISTORY_TABLE: Final = Option[str | None].text(
    "history.table",
    None,
    "`db.name`, in the same warehouse, of the table to which the maintainer writes each version of each row, with the "
    "time of its commit (see docs/training-sets-without-leakage.md). The maintainer creates it.",
)
HISTORY_COLUMNS: Final = Option[tuple[str, ...]].names(
    "history.columns",
    (),
    "The columns whose versions `history.table` gets, besides the primary key. A commit that changes none of them adds "
    "no version. Without it, all columns. Name the columns of event times, too.",
)
HISTORY_OF: Final = Option[str | None].text(
    "widetable.history-of",
    None,
    "`db.name` of the table whose versions this table contains. The maintainer that creates the history (option "
    "`history.table` of that table) sets it; it is the only writer.",
    immutable=True,
)
HISTORY_BEGINS: Final = Option[str | None].text(
    "widetable.history-begins",
    None,
    "The identity of the table whose versions this table contains, the id of the snapshot with which they begin, its "
    "time in epoch milliseconds, and the ids of its columns. Set with `widetable.history-of`.",
    immutable=True,
)

SAMPLES_OF: Final = Option[str | None].text(
    "widetable.samples-of",
    None,
    "`db.name` of the table whose samples this table contains, or the keys that wait to be samples. "
    "`Table.follow_samples` of that table sets it; it is the only writer.",
    immutable=True,
)
SAMPLES_BEGIN: Final = Option[str | None].text(
    "widetable.samples-begin",
    None,
    "The identity of the table whose samples this table contains, the id of the snapshot with which they begin, and "
    "the ids of the columns that they are made of. Set with `widetable.samples-of`.",
    immutable=True,
)
SAMPLES_RULE: Final = Option[str | None].text(
    "widetable.samples-rule",
    None,
    "The rule by which rows become samples, as JSON. Set with `widetable.samples-of`.",
    immutable=True,
)

TILES_FROM: Final = Option[str | None].text(
    "tiles.from",
    None,
    "`db.name`, in the same warehouse, of a table of smaller tiles. The maintainer of this table makes its tiles of "
    "them, and is its only writer (see docs/counts-over-windows.md). Needs `widetable.tile-size`.",
    immutable=True,
)

JOIN_OPTIONS: Final[tuple[Option[Any], ...]] = (LEFT, RIGHT, ON, HOW, MAX_MATCHES)
OPTIONS_OF_MADE: Final[tuple[Option[Any], ...]] = (
    *JOIN_OPTIONS,
    INDEX_OF,
    HISTORY_TABLE,
    HISTORY_COLUMNS,
    HISTORY_OF,
    HISTORY_BEGINS,
    SAMPLES_OF,
    SAMPLES_BEGIN,
    SAMPLES_RULE,
    TILES_FROM,
)
_NEEDED: Final = (LEFT, RIGHT, ON)


def check_join(options: Mapping[str, str]) -> None:
    """Check that join options come with the three that name the tables and columns. `derive.joined_plan` checks their
    values.
    """
    present = [option.key for option in JOIN_OPTIONS if option.key in options]
    missing = [option.key for option in _NEEDED if option.key not in options]
    if present and missing:
        raise InvalidError(
            f"option {present[0]!r}",
            found=f"no option {missing[0]!r}",
            expected=f"all of {', '.join(option.key for option in _NEEDED)}: the option requires them",
            action="Create the table with DeltaJoin.create, or `widetable join add`.",
        )
