"""What a merge leaves of its window when its rows are gathered."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support.models.aggregates import FUNCTIONS
from tests.support.tables.bucket import row_batch
from tests.widetable.merge.test_normal_form import record
from widetable.merge.engine import engine_of
from widetable.merge.gather import gather
from widetable.merge.window import window_of_arrivals
from widetable.schema.new_schema import new_schema

COLUMNS = [(kind, function) for kind, of in FUNCTIONS.items() for function in sorted(set(of))]


@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
@pytest.mark.parametrize(("kind", "function"), COLUMNS, ids=str)
def test_no_joined_column_is_kept(engine: str, kind: pa.DataType, function: str) -> None:
    """Those of a wide table would be as large as the window itself."""
    long = pa.int64()
    schema = new_schema(
        pa.schema([pa.field("k", long, nullable=False), ("g", long), ("a", kind)]),
        primary_key=["k"],
        options={
            "merge-engine": engine,
            "fields.a.aggregate-function": function,
            **({"fields.g.sequence-group": "a"} if engine == "partial-update" else {}),
            **({"fields.a.nested-key": "id"} if function == "nested_partial_update" else {}),
        },
    )
    batches = [row_batch(schema, [record("+I", 1, n, None)], schema.names, n) for n in range(3)]
    window = window_of_arrivals(schema, batches)
    assert gather(window, engine_of(schema).plan(window, schema.names), schema.names).num_rows == 1
    assert window._columns == {}
