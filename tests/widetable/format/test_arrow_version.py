"""What an older Arrow must not write."""

from __future__ import annotations

import pyarrow as pa
import pytest

from widetable.errors import UnsupportedError
from widetable.format.arrow_version import check_times

TIME = pa.time32("ms")


@pytest.mark.parametrize(
    "kind",
    [TIME, pa.list_(TIME), pa.map_(pa.string(), TIME), pa.struct([pa.field("x", pa.list_(TIME))])],
    ids=str,
)
def test_times_need_an_arrow_that_marks_them_as_paimon_does(kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("at", kind)])
    with pytest.raises(UnsupportedError, match="column 'at'"):
        check_times(schema, arrow=21)
    check_times(schema, arrow=22)


def test_other_columns_need_none() -> None:
    check_times(pa.schema([("k", pa.int64()), ("t", pa.timestamp("us"))]), arrow=19)
