"""Merging, written as scripts: tests/testdata/merging/*.txt, whose answers follow from the rules by hand.

    table k* g a! b          columns, all BIGINT: * key, ! NOT NULL
    option = value           lines of options
    commit k g a             one commit of a writer with these columns; `commit` alone: all columns
    +I 1 5 -                 its records in arrival order, - is null
    compact 0 2              merge the runs 0 and 1 (oldest first), if that is allowed

Answers, one line per commit and compaction. `rows: (…) (…)` are the visible rows in key order; `layers N` is said of
a commit that makes more than one run. `runs: …` are the records that stand in the runs after a compaction, deletes
too. An error ends the script with its kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.models.aggregate_model import MeaninglessRetraction
from tests.support.models.model import Model, Record, Row
from tests.support.programs.scripts import check_script
from tests.support.tables.bucket import Bucket, records_of
from widetable.errors import WidetableError
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

FOLDER = Path(__file__).resolve().parents[2] / "testdata/merging"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.txt")))
def test_script(name: str) -> None:
    check_script(FOLDER / f"{name}.txt", answer)


def test_there_are_scripts() -> None:
    assert len(list(FOLDER.glob("*.txt"))) >= 4


def answer(command: Sequence[str]) -> str:
    """Run one script; the model runs along, so that the two are never of different minds."""
    found: list[str] = []
    try:
        table = _Script(_schema(command))
        for step in _steps(command):
            found.append(table.run(step))
    except WidetableError as error:
        found.append(type(error).__name__)
    return "\n".join(found)


class _Script:
    def __init__(self, schema: TableSchema) -> None:
        self._bucket = Bucket(schema)
        self._model = Model(schema)
        self._names = schema.names

    def run(self, step: Sequence[str]) -> str:
        verb, *words = step[0].split()
        if verb == "compact":
            first, last = map(int, words)
            allowed = self._bucket.compact(first, last)
            shown = [
                self._text(kind, row) for run in self._bucket.runs for kind, row in records_of(run)
            ]
            return " ".join(["runs:", *shown]) if allowed else "refused"
        assert verb == "commit", step
        return self._commit(words or self._names, step[1:])

    def _commit(self, columns: Sequence[str], lines: Sequence[str]) -> str:
        records = [_record(columns, line) for line in lines]
        runs_before = len(self._bucket.runs)
        self._bucket.write(records, columns)
        layers = len(self._bucket.runs) - runs_before
        rows = self._bucket.rows()
        self._model.write(records)
        assert rows == self._model.rows()
        shown = [self._text("", row) for row in rows] + [f"layers {layers}"] * (layers > 1)
        return " ".join(["rows:", *shown])

    def _text(self, kind: str, row: Row) -> str:
        values = ["-" if row.get(name) is None else str(row[name]) for name in self._names]
        return f"{kind}({' '.join(values)})"


def _steps(command: Sequence[str]) -> list[list[str]]:
    steps: list[list[str]] = []
    for line in command[1:]:
        if line.split()[0] in ("commit", "compact"):
            steps.append([line])
        elif " = " not in line:
            steps[-1].append(line)
    return steps


def _schema(command: Sequence[str]) -> TableSchema:
    verb, *columns = command[0].split()
    assert verb == "table", command
    fields = [pa.field(c.strip("*!"), pa.int64(), nullable=c[-1] not in "*!") for c in columns]
    options = dict(line.split(" = ") for line in command[1:] if " = " in line)
    keys = [c.strip("*") for c in columns if c.endswith("*")]
    return new_schema(pa.schema(fields), primary_key=keys, options=options)


def _record(columns: Sequence[str], line: str) -> Record:
    kind, *values = line.split()
    pairs = zip(columns, values, strict=True)
    return kind, {name: None if value == "-" else int(value) for name, value in pairs}


def test_model_and_merge_agree_on_what_is_wrong() -> None:
    model = Model(_schema(["table k* a", "merge-engine = partial-update"]))
    with pytest.raises(MeaninglessRetraction):
        model.write([("+I", {"k": 1}), ("-D", {"k": 1})])
