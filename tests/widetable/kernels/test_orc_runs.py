"""Runs of ORC against the examples of its specification, and against a writer that follows the grammar bit by bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

from widetable.kernels.arrow_buffers import frozen
from widetable.kernels.orc_runs import unsigned_runs

WIDTHS = [*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64]


def decoded(data: bytes, most: int = 1 << 20) -> list[int] | None:
    found = unsigned_runs(frozen(np.frombuffer(data, np.uint8)), most)
    return None if found is None else [value % 2**64 for value in found.tolist()]


@pytest.mark.parametrize(
    ("data", "values"),
    [
        ("0a2710", [10000] * 5),
        ("5e035ca1ab1edeadbeef", [23713, 43806, 57005, 48879]),
        (
            "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8",
            [2030, 2000, 2020, 1000000, *range(2040, 2200, 10)],
        ),
        ("c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
    ],
)
def test_examples_of_the_specification(data: str, values: list[int]) -> None:
    assert decoded(bytes.fromhex(data)) == values
    assert decoded(bytes.fromhex(data) * 3, 3 * len(values)) == values * 3
    assert decoded(bytes.fromhex(data) * 3, 3 * len(values) - 1) is None


def packed(values: list[int], width: int) -> bytes:
    bits = "".join(f"{value:0{width}b}" for value in values)
    size = (len(bits) + 7) // 8
    return int(bits.ljust(size * 8, "0") or "0", 2).to_bytes(size, "big")


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def head(mode: int, code: int, count: int) -> bytes:
    return (mode << 14 | code << 9 | count - 1).to_bytes(2, "big")


def repeat(rng: random.Random) -> tuple[bytes, list[int]]:
    width, count = rng.randint(1, 8), rng.randint(3, 10)
    value = rng.getrandbits(8 * width)
    data = bytes([width - 1 << 3 | count - 3]) + value.to_bytes(width, "big")
    return data, [value] * count


def direct(rng: random.Random) -> tuple[bytes, list[int]]:
    code, count = rng.randrange(32), rng.randint(1, 512)
    values = [rng.getrandbits(WIDTHS[code]) for _ in range(count)]
    return head(1, code, count) + packed(values, WIDTHS[code]), values


def patched(rng: random.Random) -> tuple[bytes, list[int]]:
    code, patch_code, gap_width = rng.randrange(27), rng.randrange(24), rng.randint(1, 8)
    width, patch_width, count = WIDTHS[code], WIDTHS[patch_code], rng.randint(1, 512)
    base_bytes = rng.randint(1, 8)
    base = rng.randint(1 - 2 ** (8 * base_bytes - 1), 2 ** (8 * base_bytes - 1) - 1)
    values = [rng.getrandbits(width) for _ in range(count)]
    entries, at = [], 0
    low = list(values)
    for _ in range(rng.randint(0, 31)):
        gap = rng.getrandbits(gap_width)
        if at + gap >= count:
            break
        at += gap
        patch = rng.getrandbits(patch_width)
        entries.append(gap << patch_width | patch)
        values[at] |= patch << width
    sign = (base < 0) << (8 * base_bytes - 1)
    data = head(2, code, count)
    data += bytes([base_bytes - 1 << 5 | patch_code, gap_width - 1 << 5 | len(entries)])
    data += (abs(base) | sign).to_bytes(base_bytes, "big") + packed(low, width)
    entry_width = next(each for each in WIDTHS if each >= patch_width + gap_width)
    return data + packed(entries, entry_width), [value + base for value in values]


def delta(rng: random.Random) -> tuple[bytes, list[int]]:
    code, count = rng.randrange(32), rng.randint(1, 512)
    base, first = rng.getrandbits(64), rng.randint(-(2**63), 2**63 - 1)
    steps = [first] * (count - 1)
    data = head(3, code, count) + varint(base) + varint(first * 2 if first >= 0 else -first * 2 - 1)
    if code and count > 2:
        sizes = [rng.getrandbits(WIDTHS[code]) for _ in range(count - 2)]
        data += packed(sizes, WIDTHS[code])
        steps[1:] = [size if first >= 0 else -size for size in sizes]
    return data, [base + sum(steps[:at]) for at in range(count)]


@pytest.mark.parametrize("run", [repeat, direct, patched, delta])
def test_a_run_gives_what_was_written(rng: random.Random, run: object) -> None:
    assert callable(run)
    for _ in range(40):
        data, values = run(rng)
        assert decoded(data) == [value % 2**64 for value in values]


def test_runs_one_after_another(rng: random.Random) -> None:
    runs = [rng.choice([repeat, direct, patched, delta])(rng) for _ in range(40)]
    expected = [value % 2**64 for _, values in runs for value in values]
    assert decoded(b"".join(data for data, _ in runs)) == expected


@pytest.mark.parametrize("run", [repeat, direct, patched, delta])
def test_a_run_that_is_cut_off_is_none(rng: random.Random, run: object) -> None:
    assert callable(run)
    for _ in range(20):
        data, _ = run(rng)
        for cut in {1, 2, 3, 4, 5, len(data) - 1}:
            if cut < len(data):
                assert decoded(data[:cut]) is None


def test_any_bytes_are_runs_or_none(rng: random.Random) -> None:
    refused = 0
    for _ in range(300):
        found = decoded(rng.randbytes(rng.randrange(1, 60)))
        refused += found is None
    assert refused > 0


def test_no_bytes_are_no_values() -> None:
    assert decoded(b"") == []
