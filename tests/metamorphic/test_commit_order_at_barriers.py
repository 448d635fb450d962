"""What was committed later is later under barriers, too: in the newest rows, as of each barrier, and in the changes.

WIDETABLE_OVERLAPS: see test_commit_order; a quarter as many histories.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.metamorphic.test_commit_order import OVERLAPS
from tests.support.faults.faults import FaultyFileIO
from tests.support.models.barrier_labels import INTERVAL
from tests.support.models.changelog_follower import Follower, changes_of
from tests.support.models.overlapping_barriers import Labelled, OverlappingBarriers
from tests.support.models.random_table import TableSpec, changelog_specs, make, table_specs
from widetable.storage.local import LocalFileIO

NAMES = ("db.t", "db.u")


@st.composite
def labelled_specs(draw: st.DrawFn, producer: str, *, stages: bool) -> TableSpec:
    """Any table that may be under barriers."""
    spec = draw(table_specs() if producer == "none" else changelog_specs(producer))
    stage = {"widetable.barrier-stage": "true"} if stages else {}
    interval = {"widetable.barrier-interval": f"{INTERVAL} ms"}
    return spec.with_options({"deletion-vectors.enabled": "false", **interval, **stage})


@settings(max_examples=max(1, OVERLAPS // 4))
@given(
    data=st.data(),
    producer=st.sampled_from(["none", "lookup", "lookup", "input"]),
    tables=st.sampled_from([1, 1, 2]),
    stages=st.booleans(),
    steps=st.integers(8, 24),
)
def test_the_order_of_commits_decides_at_barriers(
    data: st.DataObject, producer: str, tables: int, stages: bool, steps: int
) -> None:
    """All engines, functions, sequence groups and deletes; one table or two."""
    with TemporaryDirectory() as folder:
        found = []
        for name in NAMES[:tables]:
            spec = data.draw(labelled_specs(producer, stages=stages), label=name)
            found.append(Labelled(name, make(folder, spec, name), spec))
        file_io = FaultyFileIO(LocalFileIO(fsync=False))
        OverlappingBarriers(wt.Catalog(folder), found, file_io, stages).run(data, steps)
        for labelled in found:
            labelled.table.compact(full=True)
            labelled.check()
            if producer == "lookup":
                _check_changes(labelled)
            report = labelled.table.audit()
            assert report.ok, report


def _check_changes(labelled: Labelled) -> None:
    """All changes up to a barrier, each of which fits to those before it, make the rows as of it."""
    stop = labelled.last_stop()
    if stop:
        model = labelled.model(stop)
        follower = Follower(model.schema, uncompared=model.uncompared)
        follower.apply(changes_of(labelled.table, 0, stop, mode="barrier"))
        follower.check(model.rows())
