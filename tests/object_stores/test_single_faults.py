"""Any one request of a commit may fail in any way: the commit is in, or it is not, and it is in once when repeated."""

from __future__ import annotations

import contextlib

import pytest

import widetable as wt
from tests.object_stores.faulty_proxy import Fault, FaultyProxy
from tests.object_stores.test_tables import create

_MOST_REQUESTS = 20
FAULTS = [Fault.REFUSED, Fault.BROKEN, Fault.LOST_ANSWER, Fault.CUT]


class OneFault:
    """The plan of a proxy: one request of some, by its number."""

    def __init__(self, fault: Fault, number: int) -> None:
        self._fault = fault
        self._left = number

    def __call__(self, method: str, path: str) -> Fault | None:
        self._left -= 1
        return self._fault if self._left == -1 else None

    @property
    def is_over(self) -> bool:
        return self._left < 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_write_that_meets_a_fault_at_any_request(
    proxy: FaultyProxy, place: str, fault: Fault
) -> None:
    table = create(place, {"write-only": "true", "changelog-producer": "none", "bucket": "1"})
    table.write({"k": [0], "a": [0], "a_at": [0]})
    other = wt.Table.open(table.path)
    for number in range(_MOST_REQUESTS):
        rows = {"k": [0, number + 1], "a": [number] * 2, "a_at": [number + 1] * 2}
        plan = proxy.plan = OneFault(fault, number)
        with contextlib.suppress(wt.WidetableError):
            table.write(rows, "user", number)
        proxy.plan = lambda method, path: None
        other.write(rows, "user", number)
        assert table.find_commit("user", number) is not None
        if not plan.is_over:
            break
    else:
        pytest.fail("a write of more requests than were looked at")
    assert number >= 11, "a write has so many"
    appends = [one for one in table.snapshots() if one.commit_user == "user"]
    assert [one.commit_identifier for one in appends] == [*range(number + 1)]
    found = table.scan(columns=["k", "a"]).to_arrow().sort_by("k").to_pylist()
    assert found == [{"k": 0, "a": number}] + [{"k": n + 1, "a": n} for n in range(number + 1)]
    assert table.audit().findings == ()
