"""Append tables in an object store: random histories as on a disk, and one request of a commit that fails."""

from __future__ import annotations

import contextlib
import random

import pytest

import widetable as wt
from tests.append.history import run_history
from tests.append.model import KINDS, made
from tests.object_stores.faulty_proxy import Fault, FaultyProxy
from tests.object_stores.test_single_faults import FAULTS, OneFault

_MOST_REQUESTS = 80


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_has_the_rows_of_its_history(
    proxy: FaultyProxy, place: str, rng: random.Random, kind: str
) -> None:
    run_history(made(place, kind, parts=rng.random() < 0.5), rng, kind, steps=8)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_update_that_meets_a_fault_at_a_request(
    proxy: FaultyProxy, place: str, rng: random.Random, fault: Fault
) -> None:
    """At every second one, from the first or the second on."""
    table = made(place, "vectors", parts=False, **{"write-only": "true"})
    table.write([{"n": number, "d": 0.0} for number in range(5)])
    other = wt.Table.open(table.path)
    first = rng.randrange(2)
    for number in range(first, _MOST_REQUESTS, 2):
        plan = proxy.plan = OneFault(fault, number)
        new = {"d": float(number + 1)}
        with contextlib.suppress(wt.WidetableError):
            table.update("n = 3", new, commit_user="user", commit_identifier=number)
        proxy.plan = lambda method, path: None
        other.update("n = 3", new, commit_user="user", commit_identifier=number)
        if not plan.is_over:
            break
    else:
        pytest.fail("an update of more requests than were looked at")
    assert number >= 20, "an update has so many"
    rows = table.scan(columns=["n", "d"]).to_arrow().sort_by("n").to_pylist()
    assert rows == [{"n": n, "d": number + 1.0 if n == 3 else 0.0} for n in range(5)]
    updates = [one for one in table.snapshots() if one.commit_user == "user"]
    assert [one.commit_identifier for one in updates] == [*range(first, number + 1, 2)]
    assert table.audit().findings == ()
