"""Whether all records up to a position have come.

The engine's measure says how far it has read the binlog: the records up to there are on their way to the job, behind
one another. So all of them have come with the first heartbeat that was made later. Heartbeats have the time of this
machine, and come every 2.4 seconds where nothing else comes.

Pure. Raises ValueError for a heartbeat that is no JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from widetable_cdc.embedded.engine_batch import EngineBatch


@dataclass
class CaughtUp:
    """Tells when a goal is reached. now: the time in milliseconds."""

    goal: int
    now: Callable[[], int]
    _read_at: int | None = field(default=None, init=False)
    is_reached: bool = field(default=False, init=False)

    def read_to(self, position: int | None) -> None:
        """Note how far the engine has read; None if nobody knows."""
        if self._read_at is None and position is not None and position >= self.goal:
            self._read_at = self.now()

    @property
    def waits_for_reading(self) -> bool:
        """Whether the engine has not read up to the goal yet, as far as is known."""
        return self._read_at is None

    def see(self, batch: EngineBatch) -> None:
        """Look at a batch that has come."""
        rows = np.flatnonzero(batch.is_heartbeat())
        if self._read_at is None or not len(rows):
            return
        body = json.loads(batch.values[int(rows[-1])].as_py())
        made = body.get("payload", body)["ts_ms"]
        self.is_reached |= int(made) > self._read_at
