"""The part of the page that is about other tables: what was widened in storage, and what was looked up.

In: what the widener and the lookup query did, the verdict. Out: texts by the names that `report_page.html` has for
them.
"""

from __future__ import annotations

from html import escape

from examples.flights.dimensions import PLANES, WEATHER
from examples.flights.pipeline import StreamRun
from examples.flights.report.layer_report import seconds_text
from examples.flights.report.widened import Widened
from examples.flights.verdict import DemoVerdict
from examples.flights.weather.departure_weather import DEPARTURES_NAME


def join_values(widened: Widened, lookup: StreamRun, verdict: DemoVerdict) -> dict[str, str]:
    """What the page says of joins, by name."""
    return {
        "planes_name": escape(PLANES.table),
        "weather_name": escape(WEATHER.table),
        "departures_name": escape(DEPARTURES_NAME),
        "widened_sentence": widened_sentence(widened, verdict),
        "lookup_sentence": lookup_sentence(lookup, verdict),
    }


def widened_sentence(widened: Widened, verdict: DemoVerdict) -> str:
    """How much, how soon, and whether it is right."""
    return (
        f"{widened.row_count:,} rows were widened in {widened.round_count} rounds. Half of the commits of "
        f"schedules and of aircraft were followed after {seconds_text(widened.lag(0.5))}, all within "
        f"{seconds_text(widened.lag(1.0))}. {verdict.widened_cell_count:,} widened cells were compared."
    )


def lookup_sentence(lookup: StreamRun, verdict: DemoVerdict) -> str:
    """How much was looked up, and how many cells were compared."""
    return (
        f"{lookup.row_count:,} records were looked up in {len(lookup.batches)} micro-batches, at "
        f"{lookup.rows_per_second:,.0f} records a second; {verdict.departures.cell_count:,} cells were compared."
    )
