"""The scenarios that a run plays, of covering arrays that its seed gives: the same in each process of the run.

WIDETABLE_PAIRS: how many are drawn of one array (default 24, of which a quarter needs Spark), "all" for whole arrays.
WIDETABLE_PAIR_ROUNDS: how many arrays (default 1).
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from functools import cache
from typing import Final

from tests.conftest import SEED
from tests.pairs.covering import Row, covering
from tests.pairs.dimensions import DIMENSIONS, OF_SPARK
from tests.pairs.rules import may_meet

_ROUNDS: Final = int(os.environ.get("WIDETABLE_PAIR_ROUNDS", "1"))
_PAIRS: Final = os.environ.get("WIDETABLE_PAIRS", "24")


def needs_spark(row: Mapping[str, str]) -> bool:
    """Whether a session of Spark writes or reads in it: such a scenario takes seconds, and others one."""
    return any(row.get(name) in values for name, values in OF_SPARK.items())


def scenarios(*, of_spark: bool) -> list[Row]:
    """Those that need Spark, or the others."""
    rows = [row for row in _arrays() if needs_spark(row) == of_spark]
    if _PAIRS == "all":
        return rows
    wanted = int(_PAIRS) // 4 if of_spark else int(_PAIRS) - int(_PAIRS) // 4
    return random.Random(f"{SEED} pairs {of_spark}").sample(rows, min(wanted, len(rows)))


@cache
def _arrays() -> list[Row]:
    return [
        row
        for number in range(_ROUNDS)
        for row in covering(DIMENSIONS, may_meet, f"{SEED} {number}")
    ]
