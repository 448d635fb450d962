"""A changelog under any sequence of calls: whatever was written, overtaken, replayed, altered and compacted, and
however the files lie, who follows the changes has the rows of the table, and gets of each commit what
`tests.support.models.model` finds by merging all commits from scratch.

HYPOTHESIS_PROFILE=thorough for a long run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar
from unittest import TestCase

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.support.models.changelog_follower import change_texts
from tests.support.models.changelog_machine import USERS, ChangelogMachine, Parts
from tests.support.models.model import Record, Row
from tests.support.models.random_table import TableSpec, functions_of, stored_rows, texts
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.snapshot import Snapshot


class LookupMachine(ChangelogMachine):
    """A commit's rows move up, and are emitted, when level 0 is compacted."""

    producer = "lookup"

    @invariant()
    def the_newest_level_has_the_whole_row(self) -> None:
        """Of what was emitted; so a before-image is one row, found at one level."""
        assert texts(stored_rows(self.table.path)) == texts(self.emitted.rows())


class FullCompactionMachine(ChangelogMachine):
    """A commit's rows are emitted when all files of their bucket become one level."""

    producer = "full-compaction"

    def is_emitted(self, files: Sequence[DataFileMeta]) -> bool:
        return len({file.level for file in files}) == 1 and super().is_emitted(files)


class InputMachine(ChangelogMachine):
    """The records of a commit are emitted with it, as they were written."""

    producer = "input"

    def check_snapshot(self, snapshot: Snapshot, parts: Parts) -> None:
        expected: list[Record] = []
        if snapshot.commit_kind == "APPEND":
            records = self.model.input_changes(record for part in parts for record in part)
            expected = sorted(records, key=lambda record: self._order(record[1]))
        assert change_texts(self._note_changes(snapshot)) == change_texts(expected)

    def check_start(self, rows: list[Row]) -> None:
        assert texts(rows) == texts(self.model.rows())


class SwitchedMachine(LookupMachine):
    """Producers come and go; what is compacted without one is emitted to nobody, and not missed later."""

    producer = "none"
    # So that rows are compacted above the base, in levels that a commit does not touch.
    layout: ClassVar[Mapping[str, str]] = {
        "bucket": "1",
        "num-levels": "6",
        "num-sorted-run.compaction-trigger": "5",
        "compaction.max-size-amplification-percent": "1000000",
    }

    def specs(self) -> st.SearchStrategy[TableSpec]:
        """Without functions: tables that have some keep their producer."""
        return (
            super()
            .specs()
            .filter(
                lambda spec: (
                    spec.options["merge-engine"] != "aggregation" and not functions_of(spec.schema)
                )
            )
        )

    @rule(data=st.data())
    def switch(self, data: st.DataObject) -> None:
        """Commits and compactions on both sides of it."""
        self._compact_in_part(data)
        had_none = self.model.schema.options["changelog-producer"] == "none"
        self._alter({}, set_options={"changelog-producer": "lookup" if had_none else "none"})
        self.changes.clear()
        self.settled.clear()
        self.follow()
        self._compact_in_part(data)

    def _compact_in_part(self, data: st.DataObject) -> None:
        self.write(data, USERS[0], data.draw(st.sampled_from([0, 1, 5]), label="commits"))
        self.compact(full=False)

    def check_snapshot(self, snapshot: Snapshot, parts: Parts) -> None:
        if self.model.schema.options["changelog-producer"] == "none":
            self._catch_up(snapshot)
        else:
            super().check_snapshot(snapshot, parts)

    def check_start(self, rows: list[Row]) -> None:
        has_none = self.model.schema.options["changelog-producer"] == "none"
        assert texts(rows) == texts((self.model if has_none else self.emitted).rows())

    def the_newest_level_has_the_whole_row(self) -> None:
        """Not before the first compaction with a producer."""


def _test_case(machine: type[ChangelogMachine], share: float) -> type[TestCase]:
    """The runs of a machine. share: of the examples of the profile."""
    case = machine.TestCase
    examples = max(5, int(share * settings().max_examples))
    case.settings = settings(max_examples=examples, stateful_step_count=12)
    return case


TestLookupMachine = _test_case(LookupMachine, 0.5)
TestFullCompactionMachine = _test_case(FullCompactionMachine, 0.2)
TestInputMachine = _test_case(InputMachine, 0.1)
TestSwitchedMachine = _test_case(SwitchedMachine, 0.2)
