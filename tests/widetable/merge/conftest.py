"""Every test of merges also runs with plans whose values are computed, in part, in place of picked, of texts that are
joined with 64-bit offsets, as if they were more than 2 GiB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from widetable.kernels.wide_offsets import joinable
from widetable.merge import window
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
        held = rows.schema.names
        names = [name for at, name in enumerate(columns) if at % 3 in chosen and name in held]
        left = [left_of(source, names) for source in picked.sources]
        values = [Computed(name, pa.concat_arrays([rows.column(name)])) for name in names]
        return MergePlan(
            picked.kinds, picked.sequence_numbers, (*(s for s in left if s is not None), *values)
        )

    return plan


def left_of(source: Pick | Computed, names: Sequence[str]) -> Pick | Computed | None:
    """The source without these columns."""
    if isinstance(source, Computed):
        return None if source.column in names else source
    return Pick(tuple(name for name in source.columns if name not in names), source.indices)


@pytest.fixture(autouse=True, params=COMPUTED)
def sources(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for engine in ENGINES.values():
        kind: Any = type(engine)
        monkeypatch.setattr(kind, "plan", computing(kind.plan, COMPUTED[request.param]))
    if request.param == "computed":
        monkeypatch.setattr(window, "joinable", partial(joinable, most_bytes=-1))
    return str(request.param)
