"""Decimals from texts: exactly the number, or refused, however many digits and whatever exponent."""

from __future__ import annotations

import random
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext

import pyarrow as pa
import pytest

from widetable.errors import InvalidError
from widetable.format.parsed_text import parsed_texts
from widetable.schema.types import DataType

TEXTS = 4000
EXPONENTS = [0, 1, -1, 5, -5, 30, -30, 37, 38, -38, 60, 100, -100, 300, -300, 999]


def digits_of(rng: random.Random, counts: list[int]) -> str:
    return "".join(rng.choices("0123456789", k=max(rng.choice(counts), 0)))


def drawn(rng: random.Random, precision: int, scale: int) -> str:
    """A number near what the type holds, or far from it."""
    whole = "0" * rng.choice([0, 0, 3, 50])
    whole += digits_of(rng, [0, 1, 2, precision - scale, precision - scale + 1, 38, 45])
    fraction = digits_of(rng, [0, 0, 1, scale, scale + 1, 40]) + "0" * rng.choice([0, 0, 2, 60])
    text = rng.choice(["", "-", "+"]) + (whole or "0") + (f".{fraction}" if fraction else "")
    return text + (f"{rng.choice('eE')}{rng.choice(EXPONENTS)}" if rng.random() < 0.4 else "")


def test_a_decimal_is_the_number_or_refused(rng: random.Random) -> None:
    exact = Context(prec=3000, Emax=MAX_EMAX, Emin=MIN_EMIN)
    taken = 0
    for _ in range(TEXTS):
        precision = rng.randint(1, 38)
        scale = rng.randint(0, precision)
        text = drawn(rng, precision, scale)
        with localcontext(exact):
            value = Decimal(text)
            units = value.scaleb(scale)
            fits = units == units.to_integral_value() and abs(units) < 10**precision
        kind = DataType("DECIMAL", precision=precision, scale=scale)
        if fits:
            taken += 1
            assert parsed_texts(pa.array([text]), kind)[0].as_py() == value, text
        else:
            with pytest.raises(InvalidError):
                parsed_texts(pa.array([text]), kind)
    assert taken > TEXTS // 10


@pytest.mark.parametrize("text", ["1e99999999999999999999", "1e-99999999999999999999", "-4836"])
def test_numbers_out_of_all_bounds_are_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="no more digits"):
        parsed_texts(pa.array([text]), DataType("DECIMAL", precision=38, scale=36))
