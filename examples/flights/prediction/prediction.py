"""The last step of the demo: is a flight late? Two models, one of features as they were known, one of leaked ones.

Both are trained with the flights of the first three quarters of the time, and asked about those of the last one:

    trained with    asked with    what it says
    leaked          leaked        what people see who validate with the table that they made by hand
    leaked          known         what they get: when a model is used, only what is known then can be asked
    known           known         what was promised is what is got

In: the workspace, the rows of the tables of flights and weather. Out: `Prediction`; tables in the warehouse.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import widetable as wt
from examples.flights.audit import Audit
from examples.flights.dimensions import WEATHER
from examples.flights.prediction.expected_features import audit_features
from examples.flights.prediction.hand_made import leaked_features
from examples.flights.prediction.logistic_model import LogisticModel, has_torch, train
from examples.flights.prediction.ranking import area_under_curve, curve
from examples.flights.prediction.training_set import (
    FEATURES,
    KNOWN_SCHEMA,
    LATE,
    LEAKED,
    SCHEDULE_FEATURES,
    SCHEDULED,
    TRAINING_NAME,
    store_training_set,
    with_known_features,
)
from examples.flights.workspace import Workspace

_TRAINED_SHARE = 0.75  # of the flights, in order of their scheduled departure
_KNOWN_COLUMNS = (*SCHEDULE_FEATURES, *FEATURES)
_LEAKED_COLUMNS = (*SCHEDULE_FEATURES, *(LEAKED + name for name in FEATURES))


@dataclass(frozen=True)
class Ranked:
    """How well a model ranks the flights of the last quarter. curve: shares of flights in time and of late ones."""

    area: float
    curve: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Prediction:
    """trained, asked: flights. late_share: of those asked about. leaked: as validated and as served; known: both."""

    trained: int
    asked: int
    late_share: float
    leaked: Ranked
    leaked_served: Ranked
    known: Ranked
    by_torch: bool
    audit: Audit
    seconds: float


def predict(workspace: Workspace, flights: pa.Table, weather: pa.Table) -> Prediction:
    """Make the training set, compare it with DuckDB's, train and ask. flights, weather: rows of these tables."""
    began = time.monotonic()
    catalog = wt.Catalog(str(workspace.warehouse))
    known = with_known_features(catalog, flights, _readings(workspace))
    table = store_training_set(catalog, known, leaked_features(flights, weather))
    rows = table.scan().to_arrow()
    since = rows[SCHEDULED].sort()[int(rows.num_rows * _TRAINED_SHARE)]
    held_out = pc.field(SCHEDULED) >= since
    models = [train(table, names, LATE, ~held_out) for names in (_LEAKED_COLUMNS, _KNOWN_COLUMNS)]
    asked = rows.filter(held_out)
    leaked, served, honest = (
        _ranked(model, asked, columns)
        for model, columns in zip(
            (models[0], *models), (_LEAKED_COLUMNS, _KNOWN_COLUMNS, _KNOWN_COLUMNS), strict=True
        )
    )
    return Prediction(
        trained=rows.num_rows - asked.num_rows,
        asked=asked.num_rows,
        late_share=float(pc.mean(asked[LATE]).as_py() or 0),
        leaked=leaked,
        leaked_served=served,
        known=honest,
        by_torch=has_torch(),
        audit=audit_features(rows, workspace),
        seconds=time.monotonic() - began,
    )


def check_training_set(workspace: Workspace) -> Audit:
    """Compare what a run left. Raises NotFoundError where it left no training set."""
    table = wt.Catalog(str(workspace.warehouse)).table(TRAINING_NAME)
    return audit_features(table.scan(KNOWN_SCHEMA.names).to_arrow(), workspace)


def _readings(workspace: Workspace) -> list[pa.Table]:
    """The files of the weather, in order of arrival."""
    return [
        pq.read_table(path) for path in sorted(workspace.stream(WEATHER.name).glob("*.parquet"))
    ]


def _ranked(model: LogisticModel, asked: pa.Table, columns: Sequence[str]) -> Ranked:
    scores = model.scores(asked, columns)
    late = np.asarray(asked[LATE].to_numpy(), dtype=np.bool_)
    return Ranked(area_under_curve(scores, late), curve(scores, late))
