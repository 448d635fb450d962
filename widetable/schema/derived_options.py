"""Options by which a table feeds derived tables, or takes over columns of a dimension:

    index.<column>[,<column>..]   = <database>.<table>
    widen.<column>                = <database>.<table>(<column>[ as <column>], ..)

The other table is in the warehouse of the table with the option. Pure. Raises InvalidError for options of another form
and for columns that do not fit.

    option of shop.facts                                      meaning
    index.city,zip = shop.by_city                             shop.by_city finds rows of facts by (city, zip)
    widen.cust     = shop.dim(city as c_city, name)           c_city and name of facts follow facts.cust

The second has columns that only its widener writes: c_city, name, and `_widen_cust`, which is the
sequence of the group that they form. So if two wideners write, the later round wins by the rules of
sequence groups, in whatever order the writes arrive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from widetable.errors import InvalidError
from widetable.schema.field_options import DERIVED_OPTION
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import table_root

# The prefix of the sequence column, before the foreign key's name. On disk: never change.
WIDEN_SEQUENCE: Final = "_widen_"
# The run of all wideners: two concurrent ones do no harm, because their rounds have the same numbers.
WIDENER_RUN: Final = "widener"
# The prefix of the names of wideners as writers.
WIDENER_OF: Final = "widen-"
_TABLE: Final = re.compile(r"^\s*[^\s().,/]+\.[^\s().,/]+\s*$")
_AS: Final = re.compile(r"\s+as\s+", re.IGNORECASE)
_WIDEN: Final = re.compile(r"^(?P<table>[^()]+)\((?P<columns>[^()]+)\)\s*$")


class IndexOption(NamedTuple):
    """An index. columns: the indexed columns, in this order; table: `db.name` of the index."""

    columns: tuple[str, ...]
    table: str

    @property
    def key(self) -> str:
        """The key of the option, for messages."""
        return f"index.{','.join(self.columns)}"


class WidenOption(NamedTuple):
    """Widened columns. column: the foreign key; table: `db.name` of the dimension; columns: its columns, by their names
    in the fact table.

        cust, shop.dim, {"c_city": "city", "name": "name"}
    """

    column: str
    table: str
    columns: Mapping[str, str]

    @property
    def key(self) -> str:
        """The key of the option, for messages."""
        return f"widen.{self.column}"

    @property
    def sequence(self) -> str:
        """The sequence column of the widener's writes."""
        return f"{WIDEN_SEQUENCE}{self.column}"

    def writer_of(self, fact: str) -> str:
        """Return the name of the widener among the writers of a table under barriers, and of its consumer in the
        dimension, such as `widen-shop.facts-cust`. fact: `db.name` of the fact table.
        """
        return f"{WIDENER_OF}{fact}-{self.column}"


def index_options(options: Mapping[str, str]) -> list[IndexOption]:
    """Return the indexes of a table, in the order of their options."""
    return [
        IndexOption(_names(columns, key), _table(value, key))
        for key, columns, value in _options(options, "index")
    ]


def widen_options(options: Mapping[str, str]) -> list[WidenOption]:
    """Return the widened columns of a table, in the order of their options."""
    widened = []
    for key, column, value in _options(options, "widen"):
        match = _WIDEN.match(value)
        if match is None:
            raise wrong_option(key, repr(value), "db.table(column[ as column], ..)")
        columns: dict[str, str] = {}
        for part in _names(match["columns"], key):
            # A column of the dimension may have only one name: two would be two copies to update.
            theirs, own = _renamed(part)
            if own in columns or theirs in columns.values():
                raise wrong_option(key, f"{part!r}, and the column before it", "each column once")
            columns[own] = theirs
        widened.append(WidenOption(column, _table(match["table"], key), columns))
    return widened


def check_indexes(schema: TableSchema) -> None:
    """Check the options of indexes as far as the other tables are not needed. Raises InvalidError.

    `merge.widened_rules` checks the options of widened columns.
    """
    taken: set[str] = set()
    for index in index_options(schema.options):
        if index.table in taken:
            raise wrong_option(index.key, f"{index.table}, another index", "a table of its own")
        taken.add(index.table)
        for name in index.columns:
            check_column(schema, index.key, name)
            if schema.field(name).type.is_nested:
                raise wrong_option(
                    index.key, f"{name!r} of nested type", "columns that can be keys"
                )
        if len(set(index.columns)) < len(index.columns):
            raise wrong_option(index.key, "a column twice", "each column once")


def derived_columns(schema: TableSchema) -> set[str]:
    """Return the columns that only wideners write: those of the dimensions, and the sequences."""
    own = ((*widen.columns, widen.sequence) for widen in widen_options(schema.options))
    return {name for names in own for name in names}


def _options(options: Mapping[str, str], what: str) -> list[tuple[str, str, str]]:
    """Return (key, its columns as one text, value) of the options `index.*` or `widen.*`, in their order."""
    matches = ((key, DERIVED_OPTION.match(key), value) for key, value in options.items())
    return [(key, m["columns"], value) for key, m, value in matches if m and m["what"] == what]


# Names are trimmed, unlike those in options `fields.*`, because these options are ours. An empty name is an error.
def _names(text: str, key: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise wrong_option(key, repr(text), "names of columns, with commas between them")
    return names


def _renamed(part: str) -> tuple[str, str]:
    """Parse `<column>[ as <name>]` into the column and its name in the fact table. `city as c_city` gives
    ("city", "c_city"); `name` gives ("name", "name").
    """
    theirs, _, own = _AS.sub("\0", part).partition("\0")
    return theirs.strip(), (own or theirs).strip()


def _table(text: str, key: str) -> str:
    """Return the name without surrounding blanks. `table_root` is called only to check both parts."""
    if not _TABLE.match(text):
        raise wrong_option(key, repr(text), "db.table, in the same warehouse")
    name = text.strip()
    table_root("", name, f"option {key!r}")
    return name


def check_column(schema: TableSchema, key: str, name: str) -> None:
    """Raise InvalidError for a column, named in the option `key`, that the table does not have."""
    if name not in schema.by_name:
        raise wrong_option(
            key,
            f"{name!r}, which is not a column",
            f"columns of the table ({', '.join(schema.names)})",
        )


def wrong_option(key: str, problem: str, expected: str) -> InvalidError:
    """Return the error for an option of a form or with columns that do not fit."""
    return InvalidError(
        f"option {key!r}", found=problem, expected=expected, action="Correct the option."
    )
