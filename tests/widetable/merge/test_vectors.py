"""Cases that were run on Paimon's Java classes: the state after each commit, by merging alone, and by the model."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.models.aggregate_model import MeaninglessRetraction
from tests.support.models.model import Model, Row
from tests.support.tables.bucket import Bucket
from tests.support.tables.vectors_file import Case, cases
from widetable.errors import InvalidError
from widetable.merge.engine import engine_of

FILES = ("deduplicate", "partial_update", "aggregation", "first_row")
STATE_CASES = [case for file in FILES for case in cases(file)]
# A collect whose -U and +U are in one commit: Paimon's writer folds a commit by the engine, and the +U stays.
NOT_OF_THE_MODEL = ("bc-002",)
ERROR_CASES = cases("errors")


def normal(rows: list[Row], case: Case) -> list[str]:
    """Rows of any order, arrays and maps without a defined order sorted."""
    return sorted(
        repr(
            {n: _sorted(v) if n in case.unordered and v is not None else v for n, v in row.items()}
        )
        for row in rows
    )


def _sorted(value: Any) -> Any:
    return sorted(value, key=repr)


def test_there_are_cases() -> None:
    engines = Counter(
        case.schema.options.get("merge-engine", "deduplicate") for case in STATE_CASES
    )
    assert set(engines) == {"deduplicate", "partial-update", "aggregation", "first-row"}
    assert min(engines.values()) > 1
    assert ERROR_CASES


@pytest.mark.parametrize("case", STATE_CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("compacted", [False, True], ids=["read", "compacted"])
def test_state(case: Case, compacted: bool) -> None:
    buckets: dict[tuple[Any, ...], Bucket] = {}
    for number, commit in enumerate(case.commits, start=1):
        for partition in {partition_of(case, row) for _, row in commit}:
            bucket = buckets.setdefault(partition, Bucket(case.schema))
            bucket.write([r for r in commit if partition_of(case, r[1]) == partition])
            if compacted:
                bucket.compact(0, len(bucket.runs))
        if number in case.after:
            rows = [row for bucket in buckets.values() for row in bucket.rows()]
            assert normal(rows, case) == normal(case.after[number], case)


def partition_of(case: Case, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in case.schema.partition_keys)


@pytest.mark.parametrize(
    "case", [c for c in STATE_CASES if c.id not in NOT_OF_THE_MODEL], ids=lambda case: case.id
)
def test_model(case: Case) -> None:
    model = Model(case.schema)
    for number, commit in enumerate(case.commits, start=1):
        model.write(commit)
        if number in case.after:
            assert normal(model.rows(), case) == normal(case.after[number], case)


@pytest.mark.parametrize(
    "case", [c for c in ERROR_CASES if c.phase == "schema"], ids=lambda case: case.id
)
def test_wrong_schema(case: Case) -> None:
    with pytest.raises(InvalidError) as raised:
        engine_of(case.schema)
    assert any(key in str(raised.value) for key in case.schema.options)


@pytest.mark.parametrize(
    "case",
    [c for c in ERROR_CASES if c.phase == "merge"],
    ids=lambda case: case.id,
)
def test_wrong_merge(case: Case) -> None:
    with pytest.raises(InvalidError, match=r"\b[ak]=1"):
        write_and_read(Bucket(case.schema), case)
    with pytest.raises((MeaninglessRetraction, OverflowError)):
        write_and_read(Model(case.schema), case)


def write_and_read(table: Bucket | Model, case: Case) -> None:
    for commit in case.commits:
        table.write(commit)
    table.rows()
