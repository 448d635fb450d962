"""Carries out what the forms of a relation in a round mean for its target.

    form of the target ─► relation_change ─► actions ─► the target's next schema, values of old rows ─► next form

    the log is behind the catalog     the target gets the catalog's columns, and is copied again
    rewritten values (Verify)         the table is copied again; each chunk replaces its range
    a truncate made the newest files  nothing: the log has it
    Park                              nothing is changed

The whole catalog entry is read only where a form is new, or the files of a table are others. Raises what the source,
and alterations and writes of the target raise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from widetable import Catalog, InvalidError
from widetable_cdc.evolution.actions import (
    Action,
    AddColumn,
    CopyAgain,
    DropColumn,
    Park,
    RenameColumn,
    SchemaAction,
    Verify,
    WidenType,
)
from widetable_cdc.evolution.alteration import alter_target, filled_rows
from widetable_cdc.evolution.applied_form import AppliedForm, names_between
from widetable_cdc.evolution.relation_change import (
    TargetOf,
    applied_table,
    catalog_change,
    relation_change,
)
from widetable_cdc.jobs.captured_table import CapturedTable
from widetable_cdc.jobs.checked_sections import columns_of, section_text
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.jobs.source_link import SourceLink
from widetable_cdc.log.changes import Relation, RelationColumn
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.values.source_type import SourceType

Names = Mapping[Relation, Mapping[str, str]]
_SCHEMA_ACTIONS = (AddColumn, DropColumn, RenameColumn, WidenType)


@dataclass(frozen=True)
class Evolved:
    """What has become of a table.

    form: the form that the target has now. names: for each form of the round, the target's name of each column that is
    applied. fills: values of columns that were added, for rows of earlier forms. copies_again, park: why; None if not.
    """

    form: AppliedForm
    names: Names = field(default_factory=dict)
    fills: Mapping[str, str | None] = field(default_factory=dict)
    copies_again: str | None = None
    park: str | None = None


@dataclass
class Evolution:
    """Carries changes of the schema out for one job."""

    catalog: Catalog
    config: SyncConfig
    link: SourceLink

    def evolve(
        self, table: CapturedTable, forms: Sequence[Relation], emptied: Collection[int] = ()
    ) -> Evolved:
        """Bring the target to the last of the forms, one after the other. emptied: transactions of the round at whose
        end the source was empty.
        """
        form, fills = self._stored(table, emptied), dict[str, str | None]()
        tables: dict[Relation, SourceTable] = {}
        for sent in forms:
            relation = self._restricted(table, sent)
            actions, now = self._actions(form, relation)
            for action in actions:
                if isinstance(action, Park):
                    return Evolved(form, park=action.reason)
                if isinstance(action, CopyAgain):
                    return self._copied_again(table, form, relation, action.reason)
            form, reason = self._altered(table, form, relation, now, actions, fills)
            if reason is not None:
                return Evolved(form, copies_again=reason)
            tables[sent] = form.table
        names = {sent: _sent_names(sent, of, form.table) for sent, of in tables.items()}
        return Evolved(form, names, fills)

    def _target_of(self, table: SourceTable) -> TargetOf:
        wishes = self.config.wishes(table.schema, table.name)

        def target_of(column: str, source: SourceType) -> str:
            return wishes.type_of(column, source).target

        return target_of

    def _misfit(self, form: AppliedForm, now: SourceTable | None) -> Park | None:
        """Return why the section of a table does not fit its new form, or fits it with other types of computed columns:
        the target has the old ones.
        """
        if now is None:
            return None
        try:
            after = columns_of(self.config, now, self.link.database)
        except InvalidError as error:
            return Park(str(error).rstrip("."))
        before = columns_of(self.config, form.table, self.link.database)
        for name, computed in before.computed.items():
            if computed.kind != after.computed[name].kind:
                was, is_now = computed.kind.target, after.computed[name].kind.target
                return Park(f"the computed column {name!r} was {was}, and is {is_now}")
        return None

    def _actions(
        self, form: AppliedForm, relation: Relation
    ) -> tuple[tuple[Action, ...], SourceTable | None]:
        is_new = [(c.name, c.type_oid, c.typmod) for c in relation.columns] != [
            (c.name, c.type_oid, c.typmod) for c in form.relation.columns
        ]
        if not is_new and not self._may_be_rewritten(form):
            return (), None
        now = self.link.table(relation.schema, relation.name)
        refused = self._misfit(form, now)
        if refused is not None:
            return (refused,), None
        actions = relation_change(form, relation, now, self._target_of(form.table))
        # A catalog that is ahead of the log is not the form of a Relation that says nothing new.
        return actions, now if is_new or actions else None

    def _stored(self, table: CapturedTable, emptied: Collection[int]) -> AppliedForm:
        """Return the form of the target, with the files that a truncate of the round has made.

        The transaction that made the newest files, and nothing behind it did, has left no row in them: all rows came
        later, so the log has each of them as it is. A table that is copied meanwhile is copied anew instead.
        """
        form = table.state.form
        if not emptied or table.plan is not None:
            return form
        stored = self.link.stored_files(form.table.oid)
        if stored is None or stored.xid not in emptied:
            return form
        return replace(form, table=replace(form.table, relfilenode=stored.relfilenode))

    def _may_be_rewritten(self, form: AppliedForm) -> bool:
        """Whether the rows lie in other files than before. A TRUNCATE does that, too: a job that is not to apply it
        must not copy what it has left.
        """
        if self.config.rules.truncate != "apply":
            return False
        stored = self.link.stored_files(form.table.oid)
        return stored is None or stored.relfilenode != form.table.relfilenode

    def _altered(
        self,
        table: CapturedTable,
        form: AppliedForm,
        relation: Relation,
        now: SourceTable | None,
        actions: Sequence[Action],
        fills: dict[str, str | None],
    ) -> tuple[AppliedForm, str | None]:
        """Alter the target, and fill old rows. Returns its form, and why it must be copied again; None if not."""
        reason = next((a.reason for a in actions if isinstance(a, Verify)), None)
        if now is None:
            return form, reason
        form = self._form_after(table, form, relation, applied_table(relation, now), actions)
        if reason is None:
            added = {a.name: a.fill for a in actions if isinstance(a, AddColumn)}
            fills |= added
            self._fill(table, form.table, {n: v for n, v in added.items() if v is not None})
        return form, reason

    def _form_after(
        self,
        table: CapturedTable,
        form: AppliedForm,
        relation: Relation,
        now: SourceTable,
        actions: Sequence[Action],
    ) -> AppliedForm:
        changes: list[SchemaAction] = [a for a in actions if isinstance(a, _SCHEMA_ACTIONS)]
        is_dropping = self.config.rules.drop_column == "drop"
        _, fields = alter_target(
            self.catalog,
            table.state.target,
            changes,
            form.fields,
            self._target_of(form.table),
            drops=is_dropping,
        )
        section = section_text(self.config, now, self.link.database)
        return AppliedForm(relation, now, fields, section)

    def _fill(self, table: CapturedTable, form: SourceTable, texts: Mapping[str, str]) -> None:
        """Write the value of added columns into the rows that are there, in one commit."""
        if not texts:
            return
        types = {column.name: column.type for column in form.columns}
        wishes = self.config.wishes(form.schema, form.name)
        fills = {
            name: wishes.type_of(name, types[name])
            .from_texts(pa.array([text], pa.large_string()))
            .values
            for name, text in texts.items()
        }
        table.target.copy(
            filled_rows(self.catalog.table(table.state.target), fills, own=table.columns.own),
            table.position,
        )

    def _copied_again(
        self, table: CapturedTable, form: AppliedForm, relation: Relation, reason: str
    ) -> Evolved:
        """Bring the target to the catalog's columns, for a copy whose rows have them."""
        now = self.link.table(relation.schema, relation.name)
        if now is None:
            return Evolved(form, park="it was dropped")
        refused = self._misfit(form, now)
        if refused is not None:
            return Evolved(form, park=refused.reason)
        actions = catalog_change(form, now, self._target_of(form.table))
        for action in actions:
            if isinstance(action, Park):
                return Evolved(form, park=action.reason)
        after = self._form_after(table, form, relation_of(now), now, actions)
        return Evolved(after, copies_again=reason)

    def to_catalog(self, table: CapturedTable, reason: str) -> Evolved:
        """Bring the target to the columns that the source has now, for a new copy."""
        return self._copied_again(table, table.state.form, table.state.form.relation, reason)

    def _restricted(self, table: CapturedTable, relation: Relation) -> Relation:
        """Return the relation with the columns that a group takes; the whole one for other tables."""
        special = self.config.of(relation.schema, relation.name)
        if special.group is None:
            return relation
        columns = tuple(c for c in relation.columns if c.name in table.names)
        return Relation(relation.oid, relation.schema, relation.name, relation.identity, columns)


def _sent_names(sent: Relation, of: SourceTable, now: SourceTable) -> dict[str, str]:
    # The catalog has generated columns, and the log does not.
    columns = {column.name for column in sent.columns}
    return {name: to for name, to in names_between(of, now).items() if name in columns}


def relation_of(table: SourceTable) -> Relation:
    """Return the Relation that the log would have of a table."""
    columns = tuple(
        RelationColumn(c.name, c.type.oid, c.type.typmod, c.name in table.key)
        for c in table.columns
        if not c.is_generated
    )
    return Relation(table.oid, table.schema, table.name, table.identity, columns)
