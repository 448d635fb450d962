"""Texts of the engine become records, and say what they are."""

from __future__ import annotations

import json

import pytest

import widetable as wt
from tests.cdc.embedded.recorded_batches import PREFIX, batch_of, batches, recorded
from widetable_cdc.embedded.engine_batch import EngineBatch


def test_lines_become_records() -> None:
    batch = EngineBatch.of(b"a\nb", b'{"id":1}\nnull', "ü\nz".encode(), b"{}\n{}")
    assert batch.topics.to_pylist() == ["a", "b"]
    assert batch.keys.to_pylist() == ['{"id":1}', "null"]
    assert batch.values.to_pylist() == ["ü", "z"]
    assert len(batch) == 2


def test_recorded_batches_have_what_was_recorded() -> None:
    assert [value for batch in batches() for value in batch.values.to_pylist()] == [
        record["value"] for record in recorded()
    ]


def test_texts_of_different_numbers_of_lines_are_refused() -> None:
    with pytest.raises(wt.DamagedError, match="between 1 and 2 lines"):
        EngineBatch.of(b"a", b"{}", b"{}\n{}", b"{}")


def test_only_changes_of_rows_are_changes() -> None:
    batch = batch_of(recorded())
    expected = [record["topic"].count(".") == 2 for record in recorded()]
    assert batch.is_change(PREFIX).tolist() == expected


def test_a_row_cannot_look_like_a_truncate() -> None:
    """A text of a row whose quotes are escaped, and a column named payload."""
    text = json.dumps('"payload":{"before":null,"after":null,')
    value = f'{{"payload":{{"before":null,"after":{{"payload":{text}}},"op":"c"}}}}'
    record = {"topic": f"{PREFIX}.a.b", "key": "{}", "value": value, "offset": '{"event":2}'}
    assert not batch_of([record]).ends_transaction(PREFIX).any()


def test_a_truncate_ends_its_transaction() -> None:
    records = [record for record in recorded() if '"op":"t"' in record["value"]]
    assert len(records) == 1
    assert batch_of(records).ends_transaction(PREFIX).tolist() == [True]
