"""Integers of polars that Arrow lacks, Int128 and UInt128, are written and looked up as numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest

import widetable as wt


def wide_integers() -> polars.DataFrame:
    """Arrow has no such types."""
    wide = polars.Series([1, 2**100, None], dtype=polars.Int128)
    lists = polars.Series([[1], None, []], dtype=polars.List(polars.UInt128))
    return polars.DataFrame(
        {"k": polars.Series([1, 2, 3], dtype=polars.UInt128), "v": wide, "l": lists}
    )


@pytest.mark.parametrize(
    "form",
    [lambda frame: frame, lambda frame: [frame[:1], frame[1:]], lambda frame: frame.to_dict()],
    ids=["frame", "frames", "dict"],
)
def test_integers_of_polars_that_arrow_lacks_are_numbers(
    tmp_path: Path, form: Callable[[polars.DataFrame], Any]
) -> None:
    columns = {"k": "BIGINT", "v": "DECIMAL(38, 0)", "l": "ARRAY<BIGINT>"}
    table = wt.Catalog(str(tmp_path)).create_table("db.t", columns, primary_key=["k"])
    table.write(form(wide_integers()))
    rows = table.scan().to_arrow().sort_by("k").to_pydict()
    assert rows == {"k": [1, 2, 3], "v": [1, 2**100, None], "l": [[1], None, []]}
    keys = polars.Series([2], dtype=polars.Int128)
    assert table.lookup(keys)["v"].to_pylist() == [2**100]
    with pytest.raises(wt.InvalidError, match="column 'k'"):
        table.write(polars.DataFrame({"k": polars.Series([2**100], dtype=polars.Int128)}))
    with pytest.raises(wt.UnsupportedError, match="a Series"):
        table.write(keys)
