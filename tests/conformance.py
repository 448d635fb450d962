"""Runs case files of merging, changelogs and errors against widetable's public API.

    python tests/conformance.py DIR [--case ID] [--verbose]

DIR holds *.json files of the form told in tests/vectors/README.md: tables, batches of records, and what
Paimon's Java shows after each batch, produces as changelog, or rejects. Each case is run on tables of
its own, one commit per batch, in three modes that must all agree: without any compaction, with the
universal pick after each commit, with a full compaction after each commit.

A case passes, fails, or is not yet supported: then the reason is listed. Changelogs are not produced
yet; of cases with a changelog the state is checked without their producer. Prints failures with what
was expected and what was got, and ends with the line `N passed, N failed`. Exit status 1 on failures.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import widetable as wt

Case = Mapping[str, Any]
Row = dict[str, Any]
PASSED, FAILED, UNSUPPORTED = "passed", "failed", "not yet supported"

# Mode -> options that it needs, and what it does after each commit.
MODES: Final[dict[str, tuple[dict[str, str], Callable[[wt.Table], object]]]] = {
    "no compaction": ({"write-only": "true"}, lambda table: None),
    "universal compaction": (
        {"write-only": "true", "num-sorted-run.compaction-trigger": "2"},
        lambda table: table.compact(),
    ),
    "full compaction": ({"write-only": "true"}, lambda table: table.compact(full=True)),
}
_PRODUCER: Final = "changelog-producer"
_AGGREGATES: Final = re.compile(
    r"^fields\..+\.(aggregate-function|ignore-retract|distinct|list-agg-delimiter|nested-key"
    r"|nested-sequence-field|nested-key-null-strategy|count-limit|ts-field)$"
    r"|^fields\.default-aggregate-function$|^aggregation\."
)


@dataclass(frozen=True)
class Outcome:
    """What became of a case. detail: for people; note: what a pass does not cover."""

    verdict: str
    detail: str = ""
    note: str = ""


# Types and values


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a Paimon type in SQL form, nested ones included. Lengths of strings are not kept."""
    text = text.strip().removesuffix(" NOT NULL")
    root, inner = _split_type(text)
    if inner is not None:
        return _nested_type(root, inner)
    arguments = [int(number) for number in re.findall(r"\d+", root.partition("(")[2])]
    name = root.partition("(")[0].strip()
    if name == "DECIMAL":
        precision, scale = [*arguments, 0][:2] if arguments else (10, 0)
        return pa.decimal128(precision, scale)
    if name.startswith("TIMESTAMP"):
        digits = arguments[0] if arguments else 6
        zone = "UTC" if "LTZ" in name or "LOCAL" in root else None
        return pa.timestamp("ms" if digits <= 3 else "us" if digits <= 6 else "ns", zone)
    return _PLAIN[name]


_PLAIN: Final = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BYTES": pa.binary(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
}


def _split_type(text: str) -> tuple[str, str | None]:
    """(root, what stands between its angle brackets)."""
    if "<" not in text:
        return text, None
    root, _, rest = text.partition("<")
    return root.strip(), rest[: rest.rindex(">")]


def _nested_type(root: str, inner: str) -> pa.DataType:
    parts = list(_top_level_parts(inner))
    if root == "ARRAY":
        return pa.list_(arrow_type(inner))
    if root == "MAP":
        return pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
    if root == "ROW":
        named = (part.strip().partition(" ") for part in parts)
        return pa.struct([pa.field(name.strip("`"), arrow_type(kind)) for name, _, kind in named])
    raise ValueError(f"type {root}<{inner}>")


def _top_level_parts(text: str) -> Iterator[str]:
    depth, part = 0, ""
    for char in text:
        depth += char in "<(" and 1
        depth -= char in ">)" and 1
        if char == "," and depth == 0:
            yield part
            part = ""
        else:
            part += char
    yield part


def _plain_value(value: Any, kind: pa.DataType) -> Any:
    """A value of a case file as pyarrow takes it for that type."""
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        return Decimal(str(value))
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(value)
    if pa.types.is_time(kind):
        return dt.time.fromisoformat(value)
    if pa.types.is_timestamp(kind):
        moment = dt.datetime.fromisoformat(value)
        return moment.replace(tzinfo=dt.timezone.utc) if kind.tz else moment
    if pa.types.is_binary(kind):
        return bytes.fromhex(value)
    if pa.types.is_list(kind):
        return [_plain_value(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(_plain_value(k, kind.key_type), _plain_value(v, kind.item_type)) for k, v in pairs]
    if pa.types.is_struct(kind):
        inner = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
        return {name: _plain_value(value.get(name), t) for name, t in inner.items()}
    return value


def case_schema(case: Case) -> pa.Schema:
    """The Arrow schema of a case's table."""
    return pa.schema(
        [pa.field(c["name"], arrow_type(c["type"]), c["nullable"]) for c in case["schema"]]
    )


def rows_of(rows: Sequence[Row], schema: pa.Schema, unordered: Sequence[str]) -> list[str]:
    """Rows of a case file, or of a scan, as sorted texts that are equal when the rows are."""
    texts = []
    for row in rows:
        shown = {}
        for field in schema:
            value = row.get(field.name)
            in_any_order = field.name in unordered and isinstance(value, list)
            shown[field.name] = sorted(value or (), key=repr) if in_any_order else value
        texts.append(repr(shown))
    return sorted(texts)


def plain_rows(rows: Sequence[Row], schema: pa.Schema) -> list[Row]:
    """Rows of a case file as a scan of the same rows would give them."""
    columns = {
        f.name: pa.array([_plain_value(row.get(f.name), f.type) for row in rows], f.type)
        for f in schema
    }
    names = list(columns)
    return [
        dict(zip(names, values, strict=True))
        for values in zip(*[c.to_pylist() for c in columns.values()], strict=True)
    ]


# Running a case


class Run:
    """One case in one mode, on a table of its own."""

    def __init__(self, case: Case, mode: str, warehouse: str) -> None:
        self._case = case
        self._schema = case_schema(case)
        self._mode_options, self._after_commit = MODES[mode]
        self._catalog = wt.Catalog(warehouse)

    def create(self) -> wt.Table:
        """Make the table; but for error cases, without a producer of changelogs."""
        options = dict(self._case["options"])
        if self._case["kind"] != "error":
            options = {
                key: value for key, value in options.items() if not key.startswith(_PRODUCER)
            }
        # A case's own options win: write-only tables of its own stay so.
        options = {"widetable.fsync": "false", **self._mode_options, **options}
        return self._catalog.create_table(
            "db.t",
            self._schema,
            primary_key=self._case["primary_key"],
            partition_by=self._case["partition_keys"],
            options=options,
        )

    def commit(self, table: wt.Table, batch: Sequence[Mapping[str, Any]]) -> None:
        """One commit of records in arrival order, and what the mode does after it."""
        table.write(self._records(batch))
        self._after_commit(table)

    def _records(self, batch: Sequence[Mapping[str, Any]]) -> pa.Table:
        rows = [record["row"] for record in batch]
        # NOT NULL is for the table to enforce, so the data does not declare it.
        columns = {
            f.name: pa.array([_plain_value(row.get(f.name), f.type) for row in rows], f.type)
            for f in self._schema
        }
        if "rowkind.field" not in self._case["options"]:
            columns["_row_kind"] = pa.array([record["kind"] for record in batch], pa.string())
        return pa.table(columns)

    def difference(self, table: wt.Table, expected: Sequence[Row]) -> str | None:
        """What a scan gives other than expected."""
        unordered = self._case.get("unordered_fields", ())
        got = rows_of(table.scan().to_arrow().to_pylist(), self._schema, unordered)
        wanted = rows_of(plain_rows(expected, self._schema), self._schema, unordered)
        if got == wanted:
            return None
        return "\n".join(
            ["  expected", *(f"    {r}" for r in wanted), "  got", *(f"    {r}" for r in got)]
        )


def run_case(case: Case) -> Outcome:
    """The outcome over all modes: the first that does not pass decides."""
    outcome = Outcome(PASSED)
    for mode in MODES:
        with tempfile.TemporaryDirectory(prefix="widetable-conformance-") as warehouse:
            run = Run(case, mode, warehouse)
            outcome = _run_error(case, run) if case["kind"] == "error" else _run_state(case, run)
        if outcome.verdict != PASSED:
            detail = f"{mode}: {outcome.detail}" if outcome.verdict == FAILED else outcome.detail
            return Outcome(outcome.verdict, detail, outcome.note)
    return outcome


def _run_state(case: Case, run: Run) -> Outcome:
    try:
        table = run.create()
    except wt.UnsupportedError as refused:
        return _refused(case, refused)
    try:
        for number, batch in enumerate(case["batches"], 1):
            run.commit(table, batch)
            expected = case["after"].get(str(number))
            difference = None if expected is None else run.difference(table, expected)
            if difference is not None:
                return Outcome(FAILED, f"rows after commit {number}\n{difference}")
    except wt.WidetableError as error:
        return Outcome(FAILED, f"commit {number}: {type(error).__name__}: {error}")
    return _state_only(case) if _PRODUCER in case["options"] else Outcome(PASSED)


def _state_only(case: Case) -> Outcome:
    """A case whose state agrees. Where the changelog is what the case is about, that is not enough."""
    producer = case["options"][_PRODUCER]
    if case["area"] == "changelog":
        return Outcome(UNSUPPORTED, f"changelog of producer {producer!r}; state agrees without it")
    return Outcome(
        PASSED, note=f"state checked, changelog of producer {producer!r} not yet supported"
    )


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
    if isinstance(error, wt.UnsupportedError) and _needs_aggregates(case):
        return _refused(case, error)
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


def _needs_aggregates(case: Case) -> bool:
    engine = case["options"].get("merge-engine", "deduplicate")
    return engine in ("aggregation", "first-row") or any(map(_AGGREGATES.match, case["options"]))


def _refused(case: Case, refused: wt.UnsupportedError) -> Outcome:
    if _needs_aggregates(case):
        return Outcome(UNSUPPORTED, str(refused))
    return Outcome(FAILED, f"refused: {refused}")


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
    _print_list("passed in part", [(c, o.note) for c, o in outcomes if o.note])
    left_out = [(c, o.detail) for c, o in outcomes if o.verdict == UNSUPPORTED]
    _print_list("not yet supported", left_out)
    passed = sum(outcome.verdict == PASSED for _, outcome in outcomes)
    failed = sum(outcome.verdict == FAILED for _, outcome in outcomes)
    print(f"{len(left_out)} not yet supported")
    print(f"{passed} passed, {failed} failed")
    return failed


def _guarded(case: Case) -> Outcome:
    """No case may keep the others from being run, whatever it raises."""
    try:
        return run_case(case)
    except Exception as error:  # noqa: BLE001
        return Outcome(FAILED, f"{type(error).__name__}: {error}")


def _print_list(title: str, listed: Sequence[tuple[Case, str]]) -> None:
    if listed:
        print(f"{title}:")
    for case, text in listed:
        print(f"  {case['area']} {case['id']}: {text}")


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
