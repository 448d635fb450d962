"""The law of widened columns, after every round of random histories with crashes at each step."""

from __future__ import annotations

import contextlib
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.widetable.derive.widening.shop import Killed, Shop, once
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.derive.changes import touched_rows
from widetable.derive.widening import widen_candidates
from widetable.derive.widening.widening import DIM, FACT

_ID, _CUST = st.integers(0, 5), st.none() | st.integers(6, 9)
_STEP = st.one_of(
    st.tuples(st.just("order"), _ID, _CUST),
    st.tuples(st.just("order"), _ID, _CUST),
    st.tuples(st.just("delete order"), _ID),
    st.tuples(st.just("customer"), st.integers(6, 9), st.sampled_from(["a", "b", None])),
    st.tuples(st.just("customer"), st.integers(6, 9), st.sampled_from(["a", "b", None])),
    st.tuples(st.just("delete customer"), st.integers(6, 9)),
    st.tuples(st.just("compact")),
    st.tuples(st.just("expire")),
    st.tuples(st.just("forget progress")),
    st.tuples(
        st.just("round"),
        st.sampled_from([None, None, "written", "committed", "half recorded"]),
        st.none()
        | st.tuples(st.just("order"), _ID, _CUST)
        | st.tuples(st.just("delete order"), _ID),
    ),
)


@settings(max_examples=max(5, settings().max_examples // 2))
@given(st.booleans(), st.sampled_from([0.0, 1.0]), st.integers(1, 3), st.lists(_STEP, max_size=14))
def test_case_29_the_law_holds_after_every_round(
    has_index: bool, scan_share: float, piece_rows: int, steps: list[tuple[Any, ...]]
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(widen_candidates, "SCAN_SHARE", 100 * scan_share)
        options = {"widetable.widen-piece-rows": str(piece_rows)}
        shop = Shop(folder, **options, **({"index.cust": "db.by_cust"} if has_index else {}))
        for step, *of in steps:
            if step == "round":
                with pytest.MonkeyPatch.context() as of_round:
                    crashing_round(shop, of_round, *of)
            else:
                take(shop, step, *of)
            check_law(shop)
        shop.round()
        shop.round()
        assert shop.fact.audit().ok
        dims = {row["id"]: row for row in shop.dim.scan().to_arrow().to_pylist()}
        for _, cust, city, level in shop.widened():
            row = dims.get(cust, {"city": None, "level": None})
            assert (city, level) == (row["city"], row["level"])
        assert shop.round() == 0


def take(shop: Shop, step: str, *of: Any) -> None:
    if step == "order":
        shop.orders((of[0], of[1], 1.0))
    elif step == "delete order":
        shop.orders((of[0], None, None), kind="-D")
    elif step == "customer":
        shop.customers((of[0], of[1], 3))
    elif step == "delete customer":
        shop.forget(of[0])
    elif step == "compact":
        shop.fact.compact(full=True)
    elif step == "expire":
        shop.fact.expire_snapshots(num_retained_min=1, num_retained_max=1)
        shop.dim.expire_snapshots(num_retained_min=1, num_retained_max=1)
    elif step == "forget progress":
        shop.fact.delete_consumer("widen-cust")


def crashing_round(
    shop: Shop,
    patch: pytest.MonkeyPatch,
    killed_when: str | None,
    meanwhile: tuple[Any, ...] | None,
) -> None:
    """A round in the middle of which somebody else does something, and which is killed at a step."""

    def kill(*_: object, **__: object) -> None:
        raise Killed

    if killed_when == "written":
        patch.setattr(touched_rows, "append_messages", kill)
    elif killed_when == "committed":
        patch.setattr(ConsumerStore, "record", kill)
    elif killed_when == "half recorded":
        real = ConsumerStore.record

        def record(self: ConsumerStore, name: str, id: int) -> None:
            if name == "widen-db.f-cust":
                raise Killed
            real(self, name, id)

        patch.setattr(ConsumerStore, "record", record)
    if meanwhile is not None:
        once(patch, lambda: take(shop, *meanwhile))
    with contextlib.suppress(Killed):
        shop.round()


def check_law(shop: Shop) -> None:
    """At the newest commit of the widener that says so, for facts that nobody wrote after f."""
    done = [s for s in shop.fact.snapshots() if FACT in s.properties]
    if not done:
        return
    newest = max(done, key=lambda snapshot: snapshot.id)
    f, d = int(newest.properties[FACT]), int(newest.properties[DIM])
    kept = {s.id for s in shop.fact.snapshots()}, {s.id for s in shop.dim.snapshots()}
    if f not in kept[0] or d not in kept[1]:
        return
    dims = {row["id"]: row for row in shop.dim.scan(snapshot_id=d).to_arrow().to_pylist()}
    names = ["id", "cust", "ts", "c_city", "c_level"]
    then = {row["id"]: row for row in shop.fact.scan(names, snapshot_id=f).to_arrow().to_pylist()}
    for row in shop.fact.scan(names, snapshot_id=newest.id).to_arrow().to_pylist():
        at_f = then.get(row["id"])
        if at_f is not None and at_f["ts"] == row["ts"]:  # nobody wrote it since
            expected = dims.get(at_f["cust"], {"city": None, "level": None})
            assert (row["c_city"], row["c_level"]) == (expected["city"], expected["level"])
