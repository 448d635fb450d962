"""The part of the page that is about the training set: what features are worth, as they were known and as they leak.

In: what both models ranked. Out: texts, a tile and a chart by the names that `report_page.html` has for them.
"""

from __future__ import annotations

import math
from html import escape

from examples.flights.prediction.airport_weather import AIRPORT_WEATHER_NAME
from examples.flights.prediction.delay_tiles import LATE_MINUTES, TILES_NAME
from examples.flights.prediction.prediction import Prediction, Ranked
from examples.flights.prediction.training_set import TRAINING_NAME
from examples.flights.report.charts import Series, Spec, curve_chart

_COLORS = ("var(--departure)", "var(--gone)", "var(--new)")


def prediction_values(prediction: Prediction) -> dict[str, str]:
    """What the page says of the training set, by name."""
    rows = "".join(
        f"<tr><td>{trained}</td><td>{asked}</td><td>{_area(ranked)}</td></tr>"
        for (trained, asked), ranked in _ranked(prediction).items()
    )
    return {
        "training_name": escape(TRAINING_NAME),
        "tiles_name": escape(TILES_NAME),
        "readings_name": escape(AIRPORT_WEATHER_NAME),
        "late_minutes": str(LATE_MINUTES),
        "prediction_sentence": escape(prediction_sentence(prediction)),
        "prediction_table": (
            "<table><tr><th>trained with</th><th>asked with</th><th>AUC</th></tr>"
            + rows
            + "</table>"
        ),
    }


def prediction_charts(prediction: Prediction) -> dict[str, Spec]:
    """What the page shows of it, by name."""
    series = [
        Series(
            f"trained with {trained}, asked with {asked}",
            color,
            [(100 * x, 100 * y) for x, y in ranked.curve],
            is_dashed=not number,
        )
        for number, (((trained, asked), ranked), color) in enumerate(
            zip(_ranked(prediction).items(), _COLORS, strict=True)
        )
    ]
    return {
        "prediction_chart": curve_chart(
            series,
            x_title="% of the flights in time that are taken for late",
            y_title="% of the late flights that are found",
            y_max=100,
        )
    }


def prediction_tile(prediction: Prediction) -> tuple[str, str, str]:
    """Class, number, text."""
    text = (
        f"AUC of late flights, by features as they were known; leaked ones promise {_area(prediction.leaked)} and "
        f"give {_area(prediction.leaked_served)}"
    )
    return "", _area(prediction.known), text


def prediction_sentence(prediction: Prediction) -> str:
    """What both models ranked, and how sure the features are."""
    engine = "PyTorch" if prediction.by_torch else "numpy"
    return (
        f"Is a flight late? {prediction.trained:,} flights trained two models ({engine}), {prediction.asked:,} later "
        f"ones were asked about, of which {100 * prediction.late_share:.1f} % were late. AUC with features as they "
        f"were known: {_area(prediction.known)}. With leaked ones: {_area(prediction.leaked)} by their own validation, "
        f"and {_area(prediction.leaked_served)} in use, when only what is known can be asked. "
        f"{prediction.audit.cell_count:,} cells were compared; all this took {prediction.seconds:.1f} s."
    )


def _ranked(prediction: Prediction) -> dict[tuple[str, str], Ranked]:
    """By what a model was trained with and asked with."""
    return {
        ("leaked features", "leaked features"): prediction.leaked,
        ("leaked features", "what was known"): prediction.leaked_served,
        ("what was known", "what was known"): prediction.known,
    }


def _area(ranked: Ranked) -> str:
    """None where all flights were late, or none of them."""
    return "none" if math.isnan(ranked.area) else f"{ranked.area:.3f}"
