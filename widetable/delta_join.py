"""A table that holds the join of two others: it is created once, then brought up to date round by round.

Raises InvalidError and UnsupportedError for a join that does not fit the tables, NotFoundError for a missing table, and
what rounds raise (derive/joins/delta_join).

    users (id, name_id, city), key id, joined on name_id = id with names (id, name), key id:
        named (id, name_id, city, name), key id               the right table's key is the join key: a row of the
                                                              left table has one match at most, and keeps its key
    users on name_id with orders (name_id, nr, sum), key name_id, nr:
        both (id, name_id, city, nr, sum), key name_id, id, nr    many matches: the join key, then the rest of both keys

The options of `out` store the definition (join_options), so that anyone with the table can keep it up to date:
`DeltaJoin.run_once`, a maintainer, or `widetable join run`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from widetable.arguments import instance, names, refused, text, whole_number
from widetable.catalog import Catalog
from widetable.derive.changes.derived_table import buckets_of_derived
from widetable.derive.joins.delta_join import JoinRound, join_round
from widetable.derive.joins.join_progress import consumer_of
from widetable.derive.joins.joined_plan import (
    JoinDefinition,
    JoinedPlan,
    check_joined,
    definition_of,
    join_plan,
)
from widetable.errors import InvalidError
from widetable.schema import join_options
from widetable.schema import options as opt
from widetable.schema.new_schema import new_schema
from widetable.schema.option_checks import option_texts
from widetable.schema.table_schema import TableSchema
from widetable.table import Table


def _options_of(
    definition: JoinDefinition, left: TableSchema, options: Mapping[str, str], *, by_key: bool
) -> dict[str, str]:
    """Return the options of the joined table. by_key: the join key is the right table's primary key.

    If the join key leads the primary key, rows of one join key lie in one bucket, because a round looks them up by it.
    """
    made = {opt.BUCKET.key: str(buckets_of_derived(left)), **options, **definition.options()}
    if made[opt.BUCKET.key] != "-1":
        bucket_key = left.bucket_keys if by_key else definition.left_on
        made.setdefault(opt.BUCKET_KEY.key, ",".join(bucket_key))
    return made


class DeltaJoin:
    """A join of two tables that is stored in a third one, and brought up to date round by round.

    It keeps nothing open. The constructor reads no table: `create` and `run_once` check names and columns.

    Parameters
    ----------
    catalog : Catalog
        The catalog of all three tables.
    out : str
        `db.name` of the table that holds the join.
    left : str
        `db.name` of the left table.
    right : str
        `db.name` of the right table.
    on : list of str or dict of str to str
        The columns to join on: names that both tables have, or left names to right ones.
    how : str, default "inner"
        `inner`; or `left`, if the right table's primary key is the join key.
    max_matches : int, default 100000
        A join key with more rows stops the round. For an existing table its option `join.max-matches` decides.

    Raises
    ------
    InvalidError
        A name or column is not valid, `how` is another word, or `max_matches` is below 1.

    Examples
    --------
    >>> import widetable as wt
    >>> catalog = wt.Catalog("warehouse")
    >>> users = catalog.create_table(
    ...     "shop.users",
    ...     {"id": "BIGINT", "name_id": "BIGINT"},
    ...     primary_key=["id"],
    ...     options={"index.name_id": "shop.users_by_name"},
    ... )
    >>> names = catalog.create_table(
    ...     "shop.names", {"id": "BIGINT", "name": "STRING"}, primary_key=["id"]
    ... )
    >>> users.write([{"id": 1, "name_id": 7}]).rows, names.write([{"id": 7, "name": "Ann"}]).rows
    (1, 1)
    >>> join = wt.DeltaJoin(catalog, "shop.named", "shop.users", "shop.names", {"name_id": "id"})
    """

    __module__ = "widetable"

    def __init__(
        self,
        catalog: Catalog,
        out: str,
        left: str,
        right: str,
        on: Mapping[str, str] | Sequence[str],
        how: str = "inner",
        max_matches: int = join_options.MAX_MATCHES.default,
    ) -> None:
        # `run_once` compares an existing join with this definition; `create` stores it.
        self._catalog = instance(catalog, Catalog, "catalog")
        self._out = text(out, "out")
        pairs = _pairs(on)
        if text(how, "how") not in join_options.HOW.choices:
            raise refused(how, "how", " or ".join(map(repr, join_options.HOW.choices)))
        self._definition = JoinDefinition(
            text(left, "left"),
            text(right, "right"),
            tuple(pairs),
            tuple(pairs.values()),
            how,
            whole_number(max_matches, "max_matches", least=1, most=2**31 - 1),
        )

    def create(self, options: Mapping[str, str] | None = None) -> Table:
        """Create the table that holds the join, empty.

        It has the left table's columns, then those of the right one that are no join key. The first round
        joins the rows.

        Parameters
        ----------
        options : dict of str to str, default None
            Options of the table, such as its `changelog-producer`. By default it has as many buckets as the left
            table, or 8 if those are dynamic. None: no options.

        Returns
        -------
        Table
            The new table.

        Raises
        ------
        InvalidError
            A table of that name exists, columns do not fit, or both names are the same table.
        UnsupportedError
            A left join uses another key than the right table's, or this version does not honour an option. Also
            if a table has neither the join key first in its primary key nor an index on it.
        NotFoundError
            One of the two tables does not exist.

        Examples
        --------
        >>> join.create().schema.names
        ('id', 'name_id', 'name')
        """
        definition = self._definition
        left, right = (
            self._catalog.table(name).schema for name in (definition.left, definition.right)
        )
        if definition.left == definition.right:
            raise InvalidError(
                "right",
                found=f"{definition.right!r}, which is the left table too",
                expected="another table",
                action="Copy the table, and join it with the copy.",
            )
        plan = join_plan(definition, left, right)
        made = _options_of(definition, left, option_texts(options, "options"), by_key=plan.by_key)
        self._check(plan, made)
        table = self._catalog.create_table(
            self._out,
            plan.columns,
            primary_key=plan.key,
            partition_by=plan.partition_by,
            options=made,
        )
        # A consumer of this name in both tables keeps what rounds have yet to read. A name that is too long is refused
        # now, not in the middle of the first round.
        table._consumers.check_new(consumer_of(table))
        return table

    def _check(self, plan: JoinedPlan, made: Mapping[str, str]) -> None:
        """Refuse a join that later rounds could not do. made: the options of the new table."""
        definition = self._definition
        schema = new_schema(
            plan.columns, primary_key=plan.key, partition_by=plan.partition_by, options=made
        )
        # Later rounds read the names from the options, so a name that changes on the way, such as one with a comma,
        # cannot be used.
        if definition_of(schema) != definition:
            raise refused(
                dict(zip(definition.left_on, definition.right_on, strict=True)),
                "on",
                "names without surrounding blanks, commas and equals signs",
            )
        check_joined(plan, schema)

    def run_once(self) -> JoinRound:
        """Bring the table that holds the join to the newest snapshots of the two others.

        A round reads the changes since the round before; the first one reads all rows of both tables. After a
        kill the next round does the work, because the commits record the progress. Several rounds at once are
        safe: one gives way (`JoinRound.gave_way`). `max_matches` is the table's option here.

        Returns
        -------
        JoinRound
            The result of the round; its `snapshot_id` is None if both tables were unchanged.

        Raises
        ------
        InvalidError
            The table holds no join or another one, or a join key has too many rows.
        NotFoundError
            One of the three tables does not exist.

        Examples
        --------
        >>> named = join.create()
        >>> join.run_once().rows_added
        1
        >>> named.scan().to_arrow().to_pylist()
        [{'id': 1, 'name_id': 7, 'name': 'Ann'}]
        """
        table = self._catalog.table(self._out)
        stored = definition_of(table.schema)
        # The table's max_matches may have been altered since: that does not make it another join.
        is_ours = stored is not None and self._definition == replace(
            stored, max_matches=self._definition.max_matches
        )
        done = join_round(table) if is_ours else None
        if done is None:
            raise InvalidError(
                f"table {self._out!r}",
                found="no join in it" if stored is None else f"another join: {stored.options()}",
                expected=f"{self._definition.options()}",
                action="Use another table name, or the join that the table was created with.",
            )
        return done


def _pairs(on: Any) -> dict[str, str]:
    """Return right names by left names. `["id"]` is `{"id": "id"}`; a left column occurs once."""
    if isinstance(on, Mapping):
        pairs = {text(left, "on"): text(right, "on") for left, right in on.items()}
    else:
        pairs = {name: name for name in names(on, "on")}
    if pairs:
        return pairs
    raise refused(on, "on", "one column or more")
