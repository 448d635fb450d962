"""Runs case files of merging, changelogs and errors against widetable's public API.

    python tests/conformance.py DIR [--case ID] [--verbose]

DIR holds *.json files of the form shown in tests/vectors/README.md: tables, batches of records, and what
Paimon's Java shows after each batch, produces as changelog, or rejects. Each case is run on tables of
its own, one commit per batch, in modes that must all agree. Without a producer of changelogs: without any
compaction, with the universal pick after each commit, with a full compaction after each commit. A case with
a producer then in four more, where rows and changelog of every commit are checked: compacted by the writer or
by a compactor after it (`full-compaction` always by one), before-images found by scans or by lookups.

A case passes or fails. Prints failures with what was expected and what was got, and ends with the line
`N passed, N failed`. Exit status 1 on failures.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import widetable as wt
from tests.support.models.conformance_values import (
    Case,
    Row,
    case_schema,
    changes_of,
    column_types,
    plain_rows,
    plain_value,
    rows_of,
)
from widetable.schema.field_options import FIELD_OPTION
from widetable.schema.option_checks import is_known

PASSED, FAILED = "passed", "failed"

_PRODUCER: Final = "changelog-producer"


@dataclass(frozen=True)
class Mode:
    """How the commits of a case are made. options: what it needs; after_commit: who compacts, and how; has_changelog:
    with the case's producer, whose changelog is checked.
    """

    name: str
    after_commit: Callable[[wt.Table], object]
    options: Mapping[str, str] = field(default_factory=dict)
    has_changelog: bool = False


def _compact_as_the_producer_needs(table: wt.Table) -> None:
    """A compactor beside the writer; `full-compaction` has its changelog from full compactions alone."""
    is_full = table.schema.options[_PRODUCER] == "full-compaction"
    if is_full or table.schema.options.get("write-only") == "true":
        table.compact(full=is_full)


STATE_MODES: Final = (
    Mode("no compaction", lambda table: None, {"write-only": "true"}),
    Mode(
        "universal compaction",
        lambda table: table.compact(),
        {"write-only": "true", "num-sorted-run.compaction-trigger": "2"},
    ),
    Mode("full compaction", lambda table: table.compact(full=True), {"write-only": "true"}),
)
CHANGELOG_MODES: Final = tuple(
    Mode(
        f"changelog, {who}, {strategy}",
        _compact_as_the_producer_needs,
        {"write-only": write_only, "widetable.lookup-strategy": strategy},
        has_changelog=True,
    )
    for who, write_only in (("inline", "false"), ("dedicated", "true"))
    for strategy in ("scan", "lookup")
)


@dataclass(frozen=True)
class Outcome:
    """What became of a case. detail: for people."""

    verdict: str
    detail: str = ""


# Running a case


class Run:
    """One case in one mode, on a table of its own."""

    def __init__(self, case: Case, mode: Mode, catalog: wt.Catalog) -> None:
        self._case = case
        self._mode = mode
        self._schema = case_schema(case)
        self._unordered = case.get("unordered_fields", ())
        self._catalog = catalog

    def create(self) -> wt.Table:
        """Make the table; without a producer of changelogs unless the case is about errors or the mode about them."""
        options = dict(self._case["options"])
        if self._case["kind"] != "error" and not self._mode.has_changelog:
            options = {
                key: value for key, value in options.items() if not key.startswith(_PRODUCER)
            }
        # A case's own options win: write-only tables of its own stay so.
        options = {"widetable.fsync": "false", **self._mode.options, **options}
        # What this version refuses to be given is without effect in a table that another client made.
        mistyped = {
            key: value
            for key, value in options.items()
            if FIELD_OPTION.match(key) and not is_known(key)
        }
        table = self._catalog.create_table(
            "db.t",
            column_types(self._case),
            primary_key=self._case["primary_key"],
            partition_by=self._case["partition_keys"],
            options={key: value for key, value in options.items() if key not in mistyped},
        )
        if mistyped:
            path = Path(table.path, "schema/schema-0")
            schema = json.loads(path.read_bytes())
            path.write_text(json.dumps({**schema, "options": schema["options"] | mistyped}))
        return wt.Table.open(table.path) if mistyped else table

    def commit(self, table: wt.Table, batch: Sequence[Mapping[str, Any]]) -> None:
        """One commit of records in arrival order, and what the mode does after it."""
        table.write(self._records(batch))
        self._mode.after_commit(table)

    def _records(self, batch: Sequence[Mapping[str, Any]]) -> pa.Table:
        rows = [record["row"] for record in batch]
        # NOT NULL is for the table to enforce, so the data does not declare it.
        columns = {
            f.name: pa.array([plain_value(row.get(f.name), f.type) for row in rows], f.type)
            for f in self._schema
        }
        if "rowkind.field" not in self._case["options"]:
            columns["_row_kind"] = pa.array([record["kind"] for record in batch], pa.string())
        return pa.table(columns)

    def check_commit(self, table: wt.Table, number: int) -> str | None:
        """Make commit `number`, from 1; what then differs from what the case expects."""
        before = _latest_id(table)
        self.commit(table, self._case["batches"][number - 1])
        expected = self._case["after"].get(str(number))
        wrong = None if expected is None else self._wrong_rows(table, expected)
        if wrong is not None:
            return f"rows after commit {number}\n{wrong}"
        emitted = self._case.get("changelog", {}).get(str(number))
        if emitted is not None and self._mode.has_changelog:
            wrong = self._wrong_changelog(table, before, emitted)
        return None if wrong is None else f"changelog of commit {number}\n{wrong}"

    def _wrong_rows(self, table: wt.Table, expected: Sequence[Row]) -> str | None:
        return _difference(
            rows_of(plain_rows(expected, self._schema), self._schema, self._unordered),
            rows_of(table.scan().to_arrow().to_pylist(), self._schema, self._unordered),
        )

    def _wrong_changelog(
        self, table: wt.Table, before: int, expected: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """What the changes since snapshot `before` are other than expected. Without a snapshot there are none."""
        latest = _latest_id(table)
        changes = table.changes(before, latest).to_pylist() if latest else []
        rows = plain_rows([record["row"] for record in expected], self._schema)
        kinds = [record["kind"] for record in expected]
        return _difference(
            self._change_texts(list(zip(kinds, rows, strict=True))),
            self._change_texts([(row["_row_kind"], row) for row in changes]),
        )

    def _change_texts(self, changes: Sequence[tuple[str, Row]]) -> list[str]:
        return changes_of(changes, self._schema, self._case["primary_key"], self._unordered)


def _latest_id(table: wt.Table) -> int:
    snapshots = table.snapshots()
    return snapshots[-1].id if snapshots else 0


def _difference(expected: Sequence[str], got: Sequence[str]) -> str | None:
    if got == expected:
        return None
    return "\n".join(
        ["  expected", *(f"    {r}" for r in expected), "  got", *(f"    {r}" for r in got)]
    )


def _on_disk() -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory(prefix="widetable-conformance-")


def run_case(
    case: Case,
    warehouses: Callable[[], AbstractContextManager[str]] = _on_disk,
    catalog: Callable[[str], wt.Catalog] = wt.Catalog,
) -> Outcome:
    """The outcome over all modes: the first that does not pass decides. warehouses: a new one for each. catalog: opens
    it.
    """
    modes = [*STATE_MODES]
    if case["kind"] != "error" and case["options"].get(_PRODUCER, "none") != "none":
        modes += CHANGELOG_MODES
    for mode in modes:
        with warehouses() as warehouse:
            run = Run(case, mode, catalog(warehouse))
            outcome = _run_error(case, run) if case["kind"] == "error" else _run_commits(case, run)
        if outcome.verdict != PASSED:
            detail = (
                f"{mode.name}: {outcome.detail}" if outcome.verdict == FAILED else outcome.detail
            )
            return Outcome(outcome.verdict, detail)
    return Outcome(PASSED)


def _run_commits(case: Case, run: Run) -> Outcome:
    try:
        table = run.create()
    except wt.UnsupportedError as refused:
        return Outcome(FAILED, f"refused: {refused}")
    for number in range(1, len(case["batches"]) + 1):
        try:
            wrong = run.check_commit(table, number)
        except wt.WidetableError as error:
            wrong = f"commit {number}: {type(error).__name__}: {error}"
        if wrong is not None:
            return Outcome(FAILED, wrong)
    return Outcome(PASSED)


def _run_error(case: Case, run: Run) -> Outcome:
    """Creating may always fail with a rejection; else writing, or by the end reading, must, as the phase says."""
    phase = case["phase"]
    try:
        table = run.create()
    except wt.WidetableError as error:
        return _rejected(case, error, at="create")
    try:
        for batch in case["batches"]:
            run.commit(table, batch)
        if phase == "merge":
            table.scan().to_arrow()
    except wt.WidetableError as error:
        return _rejected(case, error, at="write or read")
    return Outcome(FAILED, f"expected an error in phase {phase}: {case['error']}\n  got none")


def _rejected(case: Case, error: wt.WidetableError, *, at: str) -> Outcome:
    if not isinstance(error, wt.InvalidError | wt.UnsupportedError):
        return Outcome(
            FAILED, f"expected a rejection: {case['error']}\n  got {type(error).__name__}: {error}"
        )
    if at == "create" and case["phase"] != "schema":
        return Outcome(
            FAILED,
            f"expected an error in phase {case['phase']}: {case['error']}\n  got at create: {error}",
        )
    return Outcome(PASSED)


# The report


def load_cases(directory: Path) -> list[Case]:
    """All cases of a folder, by file name and order in the file."""
    cases: list[Case] = []
    for path in sorted(directory.glob("*.json")):
        body = json.loads(path.read_text(encoding="utf-8"))
        cases += [{**case, "area": body["area"]} for case in body.get("cases", ())]
    return cases


def report(cases: Sequence[Case], *, verbose: bool = False) -> int:
    """Run the cases, print the report; the number of failures."""
    outcomes = [(case, _guarded(case)) for case in cases]
    for case, outcome in outcomes:
        if outcome.verdict == PASSED and verbose:
            print(f"passed {case['id']}")
        if outcome.verdict == FAILED:
            print(f"FAILED {case['area']} {case['id']} ({case['feature']})\n  {outcome.detail}")
    passed = sum(outcome.verdict == PASSED for _, outcome in outcomes)
    failed = sum(outcome.verdict == FAILED for _, outcome in outcomes)
    print(f"{passed} passed, {failed} failed")
    return failed


def _guarded(case: Case) -> Outcome:
    """No case may keep the others from being run, whatever it raises."""
    try:
        return run_case(case)
    except Exception as error:  # noqa: BLE001
        return Outcome(FAILED, f"{type(error).__name__}: {error}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path, help="folder of *.json case files")
    parser.add_argument("--case", help="only the case of this id")
    parser.add_argument("--verbose", action="store_true", help="list the passed cases too")
    given = parser.parse_args(arguments)
    cases = [case for case in load_cases(given.directory) if given.case in (None, case["id"])]
    if not cases:
        print(f"no cases in {given.directory}")
        return 1
    return 1 if report(cases, verbose=given.verbose) else 0


if __name__ == "__main__":
    sys.exit(main())
