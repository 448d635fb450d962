"""Logistic regression over batches of a loader: by PyTorch where it is installed, else by numpy.

Both take the same steps: plain descent from zero, in 64 bits, batch by batch in the order of the loader, which the seed
decides. So a run is repeated exactly, and both give equal weights but for rounding.

In: a table with features and a label, names of columns, a filter that says which rows. Out: a `LogisticModel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import widetable as wt

EPOCHS: Final = 3
_SEED: Final = 2013
_BATCH_ROWS: Final = 1024
_STEP: Final = 0.1

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LogisticModel:
    """columns: of the features. means, scales: of the rows it was trained with; a null counts as the mean."""

    columns: tuple[str, ...]
    means: Floats
    scales: Floats
    weights: Floats
    bias: float

    def scores(self, rows: pa.Table, columns: Sequence[str] | None = None) -> Floats:
        """The greater, the likelier. columns: where other columns take the place of its own, in their order."""
        values = np.column_stack([_floats(rows[name]) for name in columns or self.columns])
        filled = np.where(np.isnan(values), self.means, values)
        return (filled - self.means) / self.scales @ self.weights + self.bias


def has_torch() -> bool:
    """Whether PyTorch is installed. It is not imported."""
    spec = find_spec("torch")
    return spec is not None and spec.origin is not None  # a folder of that name is not enough


def train(
    table: wt.Table,
    columns: Sequence[str],
    label: str,
    rows: pc.Expression,
    *,
    by_torch: bool | None = None,
) -> LogisticModel:
    """Train with the rows of the table that the filter takes. by_torch: None: where it is installed."""
    known = table.scan(list(columns), filter=rows).to_arrow()
    means = np.array([pc.mean(known[name]).as_py() or 0.0 for name in columns])
    deviations = [pc.stddev(known[name]).as_py() or 0.0 for name in columns]
    scales = np.array([deviation or 1.0 for deviation in deviations])
    descend = _by_torch if (has_torch() if by_torch is None else by_torch) else _by_numpy
    read = {
        "columns": [*columns, label],
        "filter": rows,
        "batch_rows": _BATCH_ROWS,
        "shuffle_seed": _SEED,
        # Columns of whole numbers must have no nulls: their mean is no whole number.
        "null": {
            name: mean
            for name, mean in zip(columns, means.tolist(), strict=True)
            if known[name].null_count
        },
    }
    weights, bias = descend(table, tuple(columns), label, (means, scales), read)
    return LogisticModel(tuple(columns), means, scales, weights, bias)


def _by_numpy(
    table: wt.Table,
    columns: tuple[str, ...],
    label: str,
    means_and_scales: tuple[Floats, Floats],
    read: dict[str, Any],
) -> tuple[Floats, float]:
    means, scales = means_and_scales
    weights, bias = np.zeros(len(columns)), 0.0
    with table.to_batches(**read) as loader:
        for epoch in range(EPOCHS):
            loader.set_epoch(epoch)
            for batch in loader:
                features = (np.column_stack([batch[name] for name in columns]) - means) / scales
                chances = 1 / (1 + np.exp(-(features @ weights + bias)))
                wrong = chances - batch[label]
                weights = weights - _STEP * (features.T @ wrong) / len(wrong)
                bias -= _STEP * float(wrong.mean())
    return weights, bias


def _by_torch(
    table: wt.Table,
    columns: tuple[str, ...],
    label: str,
    means_and_scales: tuple[Floats, Floats],
    read: dict[str, Any],
) -> tuple[Floats, float]:
    torch = import_module("torch")
    means, scales = (torch.from_numpy(each) for each in means_and_scales)
    model = torch.nn.Linear(len(columns), 1, dtype=torch.float64)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    optimizer = torch.optim.SGD(model.parameters(), lr=_STEP)
    loss_of = torch.nn.BCEWithLogitsLoss()
    dataset = table.to_torch(**read)
    batches = import_module("torch.utils.data").DataLoader(dataset, batch_size=None)
    for epoch in range(EPOCHS):
        dataset.set_epoch(epoch)
        for batch in batches:
            features = (torch.stack([batch[name].double() for name in columns], 1) - means) / scales
            optimizer.zero_grad()
            loss_of(model(features)[:, 0], batch[label].double()).backward()
            optimizer.step()
    dataset.close()
    return model.weight.detach().numpy()[0].copy(), float(model.bias.detach()[0])


def _floats(column: pa.ChunkedArray) -> Floats:
    """The values, null as NaN."""
    return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
