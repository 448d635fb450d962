"""Random histories of random tables, of any bit patterns and by any clocks: readers say what the oracle says.

WIDETABLE_HISTORIES: how many (default 3, in each tier of kernels), of WIDETABLE_HISTORY_STEPS steps each (default 10).
WIDETABLE_LONGEST_TEXT: bytes of the longest text (default 50 kB).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.histories.drawn_table import draw_table
from tests.histories.history import History
from tests.support.programs.tallies import Note

HISTORIES = int(os.environ.get("WIDETABLE_HISTORIES", "3"))
STEPS = int(os.environ.get("WIDETABLE_HISTORY_STEPS", "10"))
LONGEST = int(os.environ.get("WIDETABLE_LONGEST_TEXT", "50000"))


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("number", range(HISTORIES))
def test_every_reader_says_what_the_oracle_says(
    rng: random.Random, tmp_path: Path, number: int, tally: Note
) -> None:
    history = History(rng, draw_table(rng, LONGEST), tmp_path)
    try:
        for _ in range(STEPS):
            history.step()
        history.finish()
    finally:
        tally(cases=1, **history.counts)
