"""Texts that are more than 2 GiB together, in many files, are found by key: an array holds no more of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from widetable.format.row_budget import RowBudget
from widetable.merge import numbered_merge
from widetable.merge.gather import gather
from widetable.merge.plan import MergePlan
from widetable.merge.window import Window
from widetable.operations.queries import lookup_view

FILES = 5
KEYS = 40


def table_of(folder: Path, engine: str, text: str) -> wt.Table:
    """Each file has every key, and so a text for it."""
    table = wt.Catalog(folder).create_table(
        "db.t",
        {"k": pa.int64(), "v": pa.string(), "n": pa.int64()},
        primary_key=["k"],
        options={"merge-engine": engine, "bucket": "2", "write-only": "true"},
    )
    for number in range(FILES):
        texts = [f"{key} {number} {text}" for key in range(KEYS)]
        table.write(pa.table({"k": range(KEYS), "v": texts, "n": [number] * KEYS}))
    return table


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
@pytest.mark.parametrize("keys", [1, 7, KEYS])
def test_keys_whose_rows_fill_no_array_together_are_merged_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, keys: int
) -> None:
    """An array holds three texts here."""
    table, real = table_of(tmp_path, engine, "x"), gather
    merged: list[int] = []

    def gathers_three(window: Window, plan: MergePlan, columns: Any) -> pa.RecordBatch:
        if len(plan.kinds) > 3:
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        merged.append(len(plan.kinds))
        return real(window, plan, columns)

    monkeypatch.setattr(numbered_merge, "gather", gathers_three)
    found = table.lookup(list(range(keys)))
    assert found["v"].to_pylist() == [f"{key} {FILES - 1} x" for key in range(keys)]
    assert sum(merged) == keys


def test_one_text_that_fills_no_array_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, "deduplicate", "x")

    def gathers_none(window: Window, plan: MergePlan, columns: Any) -> pa.RecordBatch:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    monkeypatch.setattr(numbered_merge, "gather", gathers_none)
    with pytest.raises(pa.ArrowInvalid):
        numbered_merge.merge_numbered(
            [[numbered(table, 0)], [numbered(table, 0)]],
            table.schema,
            table._state().engine,
            ["k", "v"],
        )


def numbered(table: wt.Table, number: int) -> numbered_merge.NumberedRows:
    rows = pa.RecordBatch.from_pydict(
        {
            "_SEQUENCE_NUMBER": pa.array([number], pa.int64()),
            "_VALUE_KIND": pa.array([0], pa.int8()),
            "k": pa.array([number], pa.int64()),
            "v": ["x"],
        }
    )
    return numbered_merge.NumberedRows(np.array([number]), rows)


def test_the_first_keys_of_texts_are_few_and_the_next_are_as_many_as_their_rows_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files do not tell how long texts are that are alike. What each run holds of a key counts."""
    table, pieces = table_of(tmp_path, "deduplicate", "x" * 100_000), []
    monkeypatch.setattr(lookup_view, "_FIRST_TEXTS", 4 * FILES)
    monkeypatch.setattr(lookup_view, "_PIECE_BYTES", 10_000_000)
    real = lookup_view._learn

    def learn(budget: RowBudget, found: Any, keys: int, *, by_key: bool) -> None:
        pieces.append((keys, sum(len(each.numbers) for each in found)))
        real(budget, found, keys, by_key=by_key)

    monkeypatch.setattr(lookup_view, "_learn", learn)
    found = table.lookup(list(range(KEYS)))
    assert pc.sum(pc.binary_length(found["v"])).as_py() > KEYS * 100_000
    assert pieces[0] == (4, 4 * FILES)
    assert max(keys for keys, _ in pieces) <= 20  # of 500 KB each, in five files
    assert sum(keys for keys, _ in pieces) == KEYS


@pytest.mark.slow
@pytest.mark.skipif("WIDETABLE_CAMPAIGN" not in os.environ, reason="takes 8 GiB: make campaign")
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_texts_of_more_than_2_gib_are_joined_and_scanned(tmp_path: Path, engine: str) -> None:
    keys, text = 20_000, "x" * 150_000
    table = wt.Catalog(tmp_path).create_table(
        "db.t",
        {"k": pa.int64(), "v": pa.string()},
        primary_key=["k"],
        options={"merge-engine": engine, "bucket": "2", "write-only": "true"},
    )
    for first in range(40):
        some = range(first, keys, 40)
        table.write(pa.table({"k": some, "v": [f"{key} {text}" for key in some]}))
    left = pa.table({"k": range(keys)})
    joined = [
        pc.utf8_slice_codeunits(b.column("v"), 0, 5) for b in wt.lookup_join(left, table, ["k"])
    ]
    starts = [start for batch in joined for start in batch.to_pylist()]
    assert starts == [f"{key} xxxxx"[:5] for key in range(keys)]
    assert sum(batch.num_rows for batch in table.scan().to_batches()) == keys
