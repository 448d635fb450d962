"""Random tables, both ways: pypaimon's native engine and widetable write to one table, widetable compacts it, both read
the same rows. `make interop` runs 10,000 of them.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.interop.conftest import NATIVE, PypaimonProcess
from tests.interop.random_histories import (
    OtherClient,
    TheirWrite,
    has_plain_keys,
    history,
    table_folder,
)
from tests.plain_rows import row_texts
from tests.random_table import TableSpec, functions_of, table_specs

pytestmark = pytest.mark.interop

TABLES = int(os.environ.get("WIDETABLE_INTEROP_TABLES", "60"))


def is_served(spec: TableSpec) -> bool:
    """Nor `listagg`, which loses texts without characters there (test_pypaimon_differs)."""
    return has_plain_keys(spec) and "listagg" not in functions_of(spec.schema)


@settings(max_examples=TABLES, deadline=None)
@given(data=st.data())
def test_both_read_the_same_rows(
    data: st.DataObject,
    pypaimon_process: PypaimonProcess,
    pypaimon_native_write: TheirWrite,
) -> None:
    specs = table_specs().filter(is_served)
    with table_folder() as folder:
        found = history(data, folder, OtherClient(pypaimon_native_write), specs)
        if found.stays_different or not found.table.snapshots():
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
