"""What was committed later is later, whenever its writer began and whoever compacted what in between.

WIDETABLE_OVERLAPS: how many histories (default 150; `make campaign` runs 10,000).
"""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.models.changelog_follower import Follower, changes_of
from tests.support.models.overlapping import Overlapping
from tests.support.models.plain_rows import python_rows
from tests.support.models.random_table import changelog_specs, make, table_specs

OVERLAPS = int(os.environ.get("WIDETABLE_OVERLAPS", "150"))
PRODUCERS = st.sampled_from(["none", "lookup", "lookup", "full-compaction", "input"])


@settings(max_examples=OVERLAPS)
@given(data=st.data(), producer=PRODUCERS, steps=st.integers(3, 12))
def test_the_order_of_commits_decides(data: st.DataObject, producer: str, steps: int) -> None:
    """All engines, functions, sequence groups, deletes and producers; rows, changelog and audit."""
    specs = table_specs() if producer == "none" else changelog_specs(producer)
    spec = data.draw(specs, label="table")
    with TemporaryDirectory() as folder:
        history = Overlapping(make(folder, spec), spec)
        history.check = history.check_rows
        history.run(data, steps)
        if not history.commits:
            return
        history.table.compact(full=True)
        history.check_rows()
        report = history.table.audit()
        assert report.ok, report
        if producer in ("lookup", "full-compaction"):
            check_changelog(history)


def check_changelog(history: Overlapping) -> None:
    """All changes, each of which fits to those before it, make the rows."""
    table = history.table
    follower = Follower(table.schema, uncompared=history.model.uncompared)
    for snapshot in table.snapshots():
        follower.apply(changes_of(table, snapshot.id - 1, snapshot.id))
    follower.check(python_rows(table.scan().to_arrow()))
