"""Random tables, both ways: pypaimon's native engine and widetable write to one table, widetable compacts it, both read
the same rows. `make interop` runs 10,000 of them.
"""

from __future__ import annotations

import math
import os

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.interop.conftest import NATIVE, PypaimonProcess
from tests.interop.random_histories import (
    History,
    OtherClient,
    TheirWrite,
    history,
    table_folder,
)
from tests.support.models.aggregates import function_of
from tests.support.models.model import Row
from tests.support.models.plain_rows import row_texts
from tests.support.models.random_table import TableSpec, table_specs
from widetable.schema.table_schema import TableSchema

pytestmark = pytest.mark.interop

TABLES = int(os.environ.get("WIDETABLE_INTEROP_TABLES", "40"))


def is_served(spec: TableSpec) -> bool:
    """No NaN with a sign in a key, which lies below all numbers there (test_pypaimon_differs)."""
    values = [value for key in spec.keys for value in key.values() if isinstance(value, float)]
    return not any(math.isnan(value) and math.copysign(1, value) < 0 for value in values)


def is_row_served(schema: TableSchema, row: Row) -> bool:
    """No text without characters in a column of `listagg`, which is lost there (test_pypaimon_differs)."""
    return all(value != "" or function_of(schema, name) != "listagg" for name, value in row.items())


def is_written(schema: TableSchema) -> bool:
    """It leaves deletion vectors of rows that are merged to its Python."""
    has_vectors = schema.options.get("deletion-vectors.enabled") == "true"
    return schema.options["merge-engine"] == "deduplicate" or not has_vectors


def stays_different(found: History) -> bool:
    """Also where a retraction meets a group that protects its own sequence (test_pypaimon_differs)."""
    groups = found.schema.sequence_groups
    own = any(not set(group.sequence).isdisjoint(group.protected) for group in groups)
    return found.stays_different or (own and found.has_retractions)


@settings(max_examples=TABLES, deadline=None)
@given(data=st.data())
def test_both_read_the_same_rows(
    data: st.DataObject,
    pypaimon_process: PypaimonProcess,
    pypaimon_native_write: TheirWrite,
) -> None:
    specs = table_specs().filter(is_served)
    client = OtherClient(pypaimon_native_write, writes_to=is_written, serves=is_row_served)
    with table_folder() as folder:
        found = history(data, folder, client, specs)
        if stays_different(found) or not found.table.snapshots():
            reject()
        if found.waits_for_compaction:
            found.compact(full=not found.has_vectors)
        rows = found.rows()
        assert row_texts(pypaimon_process.ask(found.table, options=NATIVE, exact=True)) == rows, (
            found.steps
        )
        found.compact(full=True)
        assert found.rows() == rows
        assert row_texts(pypaimon_process.ask(found.table, options=NATIVE, exact=True)) == rows
