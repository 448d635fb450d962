"""Every test of merges also runs with plans whose values are computed, in part, in place of picked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from widetable.merge.engine import ENGINES
from widetable.merge.gather import gather
from widetable.merge.plan import Computed, MergePlan, Pick
from widetable.merge.window import Window

# Of each three columns of a plan, which are computed.
COMPUTED = {"picked": (), "computed": (0, 2)}


def computing(plan_of: Callable[..., MergePlan], chosen: tuple[int, ...]) -> Callable[..., Any]:
    """The plans of an engine, with the values of the chosen columns in place of their picks."""

    def plan(engine: Any, window: Window, columns: Sequence[str]) -> MergePlan:
        picked = plan_of(engine, window, columns)
        rows = gather(window, picked, columns)
        names = [name for at, name in enumerate(columns) if at % 3 in chosen]
        left = [
            Pick(tuple(name for name in source.columns if name not in names), source.indices)
            for source in picked.sources
            if isinstance(source, Pick)
        ]
        values = [Computed(name, pa.concat_arrays([rows.column(name)])) for name in names]
        return MergePlan(picked.kinds, picked.sequence_numbers, (*left, *values))

    return plan


@pytest.fixture(autouse=True, params=COMPUTED)
def sources(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for engine in ENGINES.values():
        kind: Any = type(engine)
        monkeypatch.setattr(kind, "plan", computing(kind.plan, COMPUTED[request.param]))
    return str(request.param)
