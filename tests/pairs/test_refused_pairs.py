"""What may not meet is refused by the product, by name, whenever it is asked for; tests/spark has the test of Spark."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import widetable as wt
from tests.pairs.array import needs_spark
from tests.pairs.covering import Choice
from tests.pairs.dimensions import PLAIN
from tests.pairs.life import Life
from tests.pairs.rules import REFUSED
from tests.pairs.steps import due

CASES = [
    pytest.param(pair, rule.refused.split(), id=" x ".join(value for _, value in pair))
    for rule in REFUSED
    for pair in rule.pairs()
    if not needs_spark(dict(pair))
]


def live(life: Life) -> None:
    life.create()
    for step in due(life):
        step()


@pytest.mark.parametrize(("pair", "kinds"), CASES)
def test_what_may_not_meet_is_refused(
    tmp_path: Path, pair: tuple[Choice, Choice], kinds: list[str]
) -> None:
    life = Life(PLAIN | dict(pair), random.Random("refused"), str(tmp_path))
    with pytest.raises(wt.WidetableError) as refused:
        live(life)
    assert type(refused.value).__name__ in kinds
    assert refused.value.found
    assert refused.value.action
