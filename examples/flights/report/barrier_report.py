"""The part of the page that is about the third layer: tables that are read at one moment, and at several.

In: the looks at the tables, and when the first batch began, epoch seconds. Out: texts and charts by the names that
`report_page.html` has for them.
"""

from __future__ import annotations

from html import escape

from examples.flights.barrier_looks import BarrierCheck, BarrierChecks
from examples.flights.carrier_hourly import HOURLY_NAME
from examples.flights.dimensions import PLANES
from examples.flights.report.charts import Series, Spec, curve_chart
from examples.flights.wide_table import TABLE_NAME


def barrier_values(looks: BarrierChecks) -> dict[str, str]:
    """What the page says of the third layer, by name."""
    return {"looks_sentence": escape(looks_sentence(looks))}


def barrier_charts(looks: BarrierChecks, began: float, x_title: str) -> dict[str, Spec]:
    """What the page shows of it, by name. Both tables at a barrier are drawn one above the other, the one dashed."""

    def seconds(look: BarrierCheck) -> float:
        return max(look.at - began, 0.0)

    flights = [(seconds(look), look.flights.flights) for look in looks.at_barriers]
    counts = [(seconds(look), look.counts.flights) for look in looks.at_barriers]
    apart = [(seconds(look), look.difference) for look in looks.newest]
    return {
        "barrier_chart": curve_chart(
            [
                Series(TABLE_NAME, "var(--schedule)", [(0.0, 0), *flights]),
                Series(HOURLY_NAME, "var(--told)", [(0.0, 0), *counts], is_dashed=True),
            ],
            x_title=x_title,
            y_title="flights",
            steps=True,
        ),
        "uncommitted_chart": curve_chart(
            [Series("flights that are not counted", "var(--gone)", [(0.0, 0), *apart])],
            x_title=x_title,
            y_title="flights",
            steps=True,
        ),
    }


def barrier_tile(looks: BarrierChecks) -> tuple[str, str, str]:
    """Class, number, text."""
    wrong = sum(not look.agrees for look in looks.at_barriers)
    text = (
        f"of {len(looks.at_barriers)} barriers at which two tables disagreed; their newest rows did "
        f"{len(looks.disagreements)} of {len(looks.newest)} times"
    )
    return "good" if looks.passed else "bad", f"{wrong}", text


def looks_sentence(looks: BarrierChecks) -> str:
    """How often what was read agreed."""
    agreed = sum(look.agrees for look in looks.at_barriers)
    most = max((abs(look.difference) for look in looks.newest), default=0)
    away = max((look.astray for look in looks.newest), default=0)
    return (
        f"{len(looks.at_barriers)} barriers were read while the streams ran, and both tables agreed at {agreed} of "
        f"them. Their newest rows, which are not of one moment, were read {len(looks.newest)} times and disagreed "
        f"{len(looks.disagreements)} times, by up to {most:,} flights. At each barrier the flights had the makers of "
        f"{PLANES.table}, but {sum(look.astray for look in looks.at_barriers)}; of newest rows up to {away:,} had not."
    )


def look_text(look: BarrierCheck) -> str:
    """What both tables said."""
    return (
        f"barrier {look.barrier}: {look.flights} in {TABLE_NAME}; {look.counts} in {HOURLY_NAME}; "
        f"{look.astray} flights not as in {PLANES.table}"
    )
