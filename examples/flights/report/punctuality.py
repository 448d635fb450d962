"""The second layer's table as people would read it: how late each carrier is by hour of the day.

In: the rows of `nyc.carrier_hourly`, as Arrow. Out: plain values, all months together. Only sums and
counts are added up; means and shares are made of them anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from examples.flights.carrier_hourly import SUMS


@dataclass(frozen=True)
class Punctuality:
    """Of some flights. delay_sum: minutes, over the delay_count flights that arrived."""

    flights: int
    delay_count: int
    delay_sum: int
    cancelled_count: int

    @property
    def mean_delay(self) -> float | None:
        return self.delay_sum / self.delay_count if self.delay_count else None

    @property
    def cancelled_share(self) -> float:
        return self.cancelled_count / self.flights if self.flights else 0.0


@dataclass(frozen=True)
class CarrierTable:
    """carriers: name and punctuality by code, the busiest first. hours: by (code, hour)."""

    carriers: dict[str, tuple[str, Punctuality]]
    hours: dict[tuple[str, int], Punctuality]


def read_carriers(hourly: pa.Table, wide: pa.Table) -> CarrierTable:
    """wide: has the names of the carriers, in columns carrier and airline."""
    pairs = (
        wide.select(["carrier", "airline"]).group_by(["carrier"]).aggregate([("airline", "max")])
    )
    names = dict(zip(pairs["carrier"].to_pylist(), pairs["airline_max"].to_pylist(), strict=True))
    totals = {row["carrier"]: _punctuality(row) for row in _summed(hourly, ("carrier",))}
    busiest = sorted(totals, key=lambda code: (-totals[code].flights, code))
    return CarrierTable(
        carriers={code: (names.get(code) or "", totals[code]) for code in busiest},
        hours={
            (row["carrier"], row["hour"]): _punctuality(row)
            for row in _summed(hourly, ("carrier", "hour"))
        },
    )


def _summed(hourly: pa.Table, keys: Sequence[str]) -> list[dict[str, Any]]:
    sums = hourly.group_by(list(keys)).aggregate([(name, "sum") for name in SUMS])
    rows: list[dict[str, Any]] = sums.to_pylist()
    return rows


def _punctuality(row: dict[str, Any]) -> Punctuality:
    return Punctuality(**{name: row[f"{name}_sum"] for name in SUMS})
