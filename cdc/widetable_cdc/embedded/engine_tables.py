"""The targets of a job whose database Debezium reads: rounds are applied to them, each change once.

    full copy     a commit for each part, with the identifiers 1, 2, ... of its table. The first one of a run deletes
                  what the table has, so a copy that begins again leaves no row that is gone meanwhile
    log           a commit for each round, whose identifier is the position of the round's last change in the binlog;
                  a table leaves out the changes up to its own position

So a table's position is the identifier of its last commit, and it is never behind the state of the job, which is saved
after the tables. Raises InvalidError for a table without a key and for positions that are not those of this log, and
what applying raises.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from widetable import Catalog, InvalidError, NotFoundError, Table
from widetable.connector import last_identifier
from widetable_cdc.debezium.debezium_apply import DebeziumJob, DebeziumSettings
from widetable_cdc.debezium.record_source import record_chunks
from widetable_cdc.embedded.binlog_position import FIRST_IN_LOG, position_text
from widetable_cdc.embedded.filled_column import fill_values, filled_rows
from widetable_cdc.embedded.rounds import EngineRound
from widetable_cdc.embedded.source_form import SourceForm, changed_forms
from widetable_cdc.embedded.table_changes import TRUNCATE, TableChanges, by_table, last_position
from widetable_cdc.source.table_pattern import is_taken

_log = logging.getLogger("widetable")


@dataclass(frozen=True)
class MirrorRules:
    """What a configuration says of mirrors. name: of the job. user: of its commits. tables, exclude: patterns.

    settings: how records are applied, but for the options of tables. target, key, options: of a table of the source, by
    its database and its name; the key is empty for the primary key.
    """

    name: str
    user: str
    tables: Sequence[str]
    exclude: Sequence[str]
    settings: DebeziumSettings
    target: Callable[[str, str], str]
    key: Callable[[str, str], tuple[str, ...]]
    options: Callable[[str, str], Mapping[str, str]]


@dataclass
class EngineTables:
    """Applies rounds in their order. forms: of the tables of the source, by their names."""

    catalog: Catalog
    rules: MirrorRules
    forms: dict[str, SourceForm]
    _copied: set[str] = field(default_factory=set, init=False)

    def apply(self, round: EngineRound, position: int, start: int) -> int:
        """Apply a round, and return the position of its last change, or the one before it.

        position: that of the job. start: where the engine began again, before which no change comes.
        """
        for value in round.schema_changes:
            self._note(value, position)
        changes = [
            each for each in by_table(round.changes) if self._follows(each.database, each.name)
        ]
        if not changes:
            return position
        if round.is_copied:
            for each in changes:
                self._copy(each)
            return position
        last = last_position(round.changes)
        first = min(each.first for each in changes)
        if first < start:
            raise InvalidError(
                "binlog",
                found=f"a change at {position_text(first)}",
                expected=f"changes behind {position_text(start)}, where the job was",
                action="If another server took over, give the job another name: it copies the tables again.",
            )
        for each in changes:
            self._follow(each, position, last)
        return max(position, last)

    def positions(self) -> dict[str, int | None]:
        """Return the position of each target, by the names at the source."""
        return {relation: self._position(self.target(relation)) for relation in self.forms}

    def target(self, relation: str) -> str:
        """Return the full name of the target of a table of the source."""
        database, _, name = relation.partition(".")
        return self.rules.target(database, name)

    def _note(self, value: str, position: int) -> None:
        """Note a change of the schema."""
        for relation, form in changed_forms(value, self.forms, self._follows).items():
            if form is not None:
                if position and relation not in self.forms:
                    self._empty(relation, position)
                self.forms[relation] = form
            elif self.forms.pop(relation, None) is not None and position:
                name, message = self.rules.name, "%s: %s was dropped; its target stays as it is"
                _log.info(message, name, relation)

    def _empty(self, relation: str, position: int) -> None:
        """Delete the rows of a table that was dropped, when one of its name is made."""
        name = self.target(relation)
        table = self._opened(name)
        if table is None or (self._position(name) or 0) > position or not self._has_rows(name):
            return
        settings = DebeziumSettings()
        job = DebeziumJob(self.catalog, name, self.rules.user, None, settings)
        job.applied([TRUNCATE], None)

    def _follows(self, database: str, name: str) -> bool:
        """Whether the job takes a table. Debezium does not look at the case of letters."""
        return is_taken(database, name, self.rules.tables, self.rules.exclude)

    def _copy(self, changes: TableChanges) -> None:
        name = self._target(changes)
        position = self._position(name) or 0
        if position + 1 >= FIRST_IN_LOG:
            raise InvalidError(
                f"table {name!r}",
                found=f"changes of this job up to {position_text(position)}, and no state of the job",
                expected="a table that the job has not filled from the log yet",
                action="Give the job another name, or drop the table.",
            )
        is_first = changes.relation not in self._copied
        if is_first and self._has_rows(name):
            changes = changes.after_truncate()
        self._applied(changes, name, position + 1)
        self._copied.add(changes.relation)

    def _follow(self, changes: TableChanges, position: int, last: int) -> None:
        name = self._target(changes)
        of_table = self._position(name) or 0
        new = changes.behind(max(of_table, position))
        form = self.forms.get(changes.relation)
        if form is not None and form.unfilled:
            if new is not None and of_table <= position:
                self._fill(new, name, form.unfilled)
            self.forms[changes.relation] = replace(form, unfilled=())
        if new is not None:
            self._applied(new, name, last)

    def _fill(self, changes: TableChanges, name: str, columns: Sequence[str]) -> None:
        """Give the rows that are there the values of columns that were added."""
        value = changes.value_with_form()
        if value is None or self._opened(name) is None:
            return
        job = self._job(changes, name)
        forms = job.read(record_chunks([value]), self._opened(name)).forms
        table = job.fitting(forms)
        values = fill_values(changes.relation, value, columns, table)
        table.write(filled_rows(table, values), self.rules.user)

    def _applied(self, changes: TableChanges, name: str, identifier: int) -> None:
        key = self._key(changes)
        if not key and self._opened(name) is None:
            raise InvalidError(
                f"table {changes.relation}",
                found="no primary key",
                expected="a key, which says which row a change is about",
                action=f'Name it in [table."{changes.relation}"] key = [...], or exclude the table.',
            )
        job = self._job(changes, name)
        result = job.applied(changes.records, identifier)
        _log.info(
            "%s: %s: %s records, %s rows written, %s bad",
            self.rules.name,
            changes.relation,
            result.records,
            result.rows,
            result.bad,
        )

    def _job(self, changes: TableChanges, name: str) -> DebeziumJob:
        options = self.rules.options(changes.database, changes.name)
        settings = replace(self.rules.settings, table_options=options)
        key = self._key(changes) or None
        return DebeziumJob.checked(self.catalog, name, self.rules.user, key, settings)

    def _key(self, changes: TableChanges) -> tuple[str, ...]:
        return self.rules.key(changes.database, changes.name) or changes.key()

    def _target(self, changes: TableChanges) -> str:
        name = self.target(changes.relation)
        others = [each for each in self.forms if each != changes.relation]
        other = next((each for each in others if self.target(each) == name), None)
        if other is not None:
            raise InvalidError(
                f"table {changes.relation}",
                found=f"the target {name!r}, which {other} has",
                expected="a target for each table",
                action=f'Name another one in [table."{changes.relation}"] target = "...".',
            )
        return name

    def _position(self, name: str) -> int | None:
        table = self._opened(name)
        return None if table is None else last_identifier(table, self.rules.user)

    def _has_rows(self, name: str) -> bool:
        table = self._opened(name)
        if table is None:
            return False
        keys = list(table.schema.primary_keys)
        return any(batch.num_rows for batch in table.scan(columns=keys).to_batches())

    def _opened(self, name: str) -> Table | None:
        try:
            return self.catalog.table(name)
        except NotFoundError:
            return None
