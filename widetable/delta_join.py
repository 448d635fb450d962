"""A table that holds the join of two others, and is kept so: made once, then brought up to date round by round.

Raises InvalidError and UnsupportedError for a join that does not fit the tables, NotFoundError for a table that is not
there, and what rounds raise (derive/delta_join).

    users (id, name_id, city), key id, joined on name_id = id with names (id, name), key id:
        named (id, name_id, city, name), key id               the right table's key is the join key: a row of the
                                                              left table has one match at most, and keeps its key
    users on name_id with orders (name_id, nr, sum), key name_id, nr:
        both (id, name_id, city, nr, sum), key name_id, id, nr    many matches: the join key, then the rest of both keys

What is joined is written into the options of `out` (join_options), so that it can be kept by whoever
has the table: `DeltaJoin.run_once`, a maintainer, or `widetable join run`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from widetable import join_options
from widetable import options as opt
from widetable.arguments import instance, names, refused, text, whole_number
from widetable.catalog import Catalog
from widetable.derive.delta_join import JoinRound, join_round
from widetable.derive.index_table import buckets_of_derived
from widetable.derive.join_progress import consumer_of
from widetable.derive.joined_plan import JoinDefinition, check_joined, definition_of, join_plan
from widetable.errors import InvalidError
from widetable.new_schema import new_schema
from widetable.option_checks import option_texts
from widetable.table import Table


class DeltaJoin:
    """The join of `left` and `right` in the table `out`, all three `db.name` of one catalog.

    on: names of columns that both have, or a dict of left names to right ones. how: "inner", or "left" where the right
    table's primary key is the join key. max_matches: a join key with more rows stops the round; of a table that is
    there its option `join.max-matches` says how many. Holds nothing open.

        join = DeltaJoin(catalog, "shop.named", "shop.users", "shop.names", {"name_id": "id"})
        join.create()
        join.run_once()

    To make one looks at no table: names and columns are checked by `create` and `run_once`.
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
        # Of a join that is there these are what it is held against (`run_once`); of a new one, what it
        # becomes (`create`).
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
        """Make the table `out`, empty: the left table's columns, then those of the right one that are no join key.

        options: of the table, such as its changelog-producer; by default it has as many buckets as the left table, 8 if
        those are dynamic.

        Nothing is joined yet: the first round does that. Raises InvalidError where a table has that
        name, for columns that do not fit and for two names that are one table, UnsupportedError for
        a left join by another key than the right table's.
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
                action="Copy one of the two into a table of its own.",
            )
        # Rows of one join key in one bucket, where the key leads: a round looks them up by it.
        plan = join_plan(definition, left, right)
        bucket_key = left.bucket_keys if plan.by_key else definition.left_on
        made = {
            opt.BUCKET.key: str(buckets_of_derived(left)),
            **option_texts(options, "options"),
            **definition.options(),
        }
        if made[opt.BUCKET.key] != "-1":
            made.setdefault(opt.BUCKET_KEY.key, ",".join(bucket_key))
        schema = new_schema(
            plan.columns, primary_key=plan.key, partition_by=plan.partition_by, options=made
        )
        # What stands in the options is what every later round reads: a name that does not come back
        # from there the same, as one with a comma, cannot be joined by.
        if definition_of(schema) != definition:
            raise refused(
                dict(zip(definition.left_on, definition.right_on, strict=True)),
                "on",
                "names without blanks around them, commas and equals signs",
            )
        check_joined(plan, schema)
        table = self._catalog.create_table(
            self._out,
            plan.columns,
            primary_key=plan.key,
            partition_by=plan.partition_by,
            options=made,
        )
        # Rounds keep what they have not read by a consumer of this name in both tables: one that is too
        # long is known now, not in the middle of the first round.
        table._consumers.check_new(consumer_of(table))
        return table

    def run_once(self) -> JoinRound:
        """One round: bring the table `out` to the newest snapshots of the two others.

        Reads what changed since the round before, all of both in the first one. A round that is
        killed is done again by the next: what it committed says how far it came. Several at once do
        no harm, one gives way (`JoinRound.gave_way`). max_matches is the table's option here.
        """
        table = self._catalog.table(self._out)
        found = definition_of(table.schema)
        # max_matches is of the table, and may have been altered since: it does not make another join.
        is_ours = found is not None and self._definition == replace(
            found, max_matches=self._definition.max_matches
        )
        done = join_round(table) if is_ours else None
        if done is None:
            raise InvalidError(
                f"table {self._out!r}",
                found="no join in it" if found is None else f"another join: {found.options()}",
                expected=f"{self._definition.options()}",
                action="Use another name for it, or the join that it was made with.",
            )
        return done


def _pairs(on: Any) -> dict[str, str]:
    """Left name to right name. `["id"]` is `{"id": "id"}`; a left column stands once."""
    if isinstance(on, Mapping):
        pairs = {text(left, "on"): text(right, "on") for left, right in on.items()}
    else:
        pairs = {name: name for name in names(on, "on")}
    if pairs:
        return pairs
    raise refused(on, "on", "one column or more")
