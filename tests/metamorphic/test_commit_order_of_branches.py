"""What was committed later is later, on main and on branches, also after rollbacks, fast-forwards and rescaling.

WIDETABLE_OVERLAPS: see test_commit_order; a quarter as many histories.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metamorphic.test_commit_order import OVERLAPS, PRODUCERS, check_changelog
from tests.support.models.overlapping_branches import KINDS, MAIN, OverlappingBranches
from tests.support.models.random_table import changelog_specs, make, table_specs


@settings(max_examples=max(1, OVERLAPS // 4))
@given(
    data=st.data(),
    producer=PRODUCERS,
    kind=st.sampled_from(sorted(KINDS)),
    steps=st.integers(8, 20),
)
def test_the_order_of_commits_decides_on_each_branch(
    data: st.DataObject, producer: str, kind: str, steps: int
) -> None:
    """All engines, functions, sequence groups, deletes and producers."""
    specs = table_specs() if producer == "none" else changelog_specs(producer)
    spec = data.draw(specs, label="table")
    with TemporaryDirectory() as folder:
        history = OverlappingBranches(make(folder, spec), spec)
        history.run(data, kind, steps)
        for line in history.lines.values():
            if not line.past:
                continue
            line.check_past(data)
            line.table.compact(full=True)
            line.check()
            report = line.table.audit()
            assert report.ok, report
        main = history.lines[MAIN]
        if main.commits and main.is_whole and producer in ("lookup", "full-compaction"):
            check_changelog(main)
