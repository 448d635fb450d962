"""Who judges changelogs is judged: the model by what Paimon's Java gave, the follower by changes that cannot be."""

from __future__ import annotations

import pytest

from tests.support.models.changelog_follower import Follower, change_texts
from tests.support.models.model import Model, Record
from tests.support.tables.vectors_file import Case, cases
from widetable.schema.table_schema import TableSchema

CASES = [
    case
    for file in ("changelog", "partial_update")
    for case in cases(file)
    if case.changelog
    and case.schema.options["merge-engine"] in ("deduplicate", "partial-update")
    and not any(option.endswith("aggregate-function") for option in case.schema.options)
]
SCHEMA = next(case for case in CASES if case.id == "cl-dd-003").schema


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_model_emits_what_java_emitted(case: Case) -> None:
    model = Model(case.schema)
    for number, records in enumerate(case.commits, 1):
        earlier = model.copy()
        model.write(records)
        if case.schema.options["changelog-producer"] == "input":
            emitted = model.input_changes(records)
        else:
            emitted = model.changes_since(earlier)
        expected = sorted(case.changelog[number], key=lambda change: model.key_of(change[1]))
        assert change_texts(emitted) == change_texts(expected)


def test_all_cases_with_a_changelog_are_here() -> None:
    assert len(CASES) == 26


def row(k: int, v: int) -> dict[str, int]:
    return {"k": k, "v": v}


GOOD: list[Record] = [
    ("+I", row(1, 1)),
    ("-U", row(1, 1)),
    ("+U", row(1, 2)),
    ("-D", row(1, 2)),
    ("+I", row(1, 3)),
]


def follower_of(schema: TableSchema, uncompared: str = "") -> Follower:
    return Follower(schema, [row(7, 7)], uncompared)


def test_changes_that_fit_are_followed() -> None:
    follower = follower_of(SCHEMA)
    follower.apply(GOOD)
    follower.check([row(7, 7), row(1, 3)])


@pytest.mark.parametrize(
    "changes",
    [
        [("+I", row(7, 8))],  # there already
        [("-D", row(1, 1))],  # not there
        [("-D", row(7, 8))],  # another row
        [("-U", row(7, 7))],  # without its +U
        [("-U", row(7, 7)), ("+U", row(8, 7))],  # of another key
        [("-U", row(7, 7)), ("+I", row(7, 8))],
        [("+U", row(7, 8))],  # without its -U
        [("-U", row(7, 8)), ("+U", row(7, 9))],  # another row
        [("-U", row(7, 7)), ("+I", row(1, 1)), ("+U", row(7, 8))],  # not at once
    ],
)
def test_changes_that_do_not_fit_are_refused(changes: list[Record]) -> None:
    with pytest.raises(AssertionError):
        follower_of(SCHEMA).apply(changes)


def test_other_rows_than_emitted_are_noticed() -> None:
    follower = follower_of(SCHEMA)
    with pytest.raises(AssertionError):
        follower.check([row(7, 8)])
    follower_of(SCHEMA, uncompared="v").check([row(7, 8)])
