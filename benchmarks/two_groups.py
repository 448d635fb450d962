"""The rows of the changelog benchmarks: a key, two sequence groups of ten texts each, in commits.

Half of a commit's rows write group 0, half group 1, the other group is null; keys are drawn with repetition; one row in
a few is late (its sequence is smaller than that of an earlier row of its key). Texts are ASCII of one width: five
columns of a group hold few distinct ones, five are random.

The file that the rival reads, little endian:

    file = rows:i64 columns:i64 width:i64
           key:i64[rows] sequence:i64[rows] group:i8[rows] text:u8[columns][rows][width]
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

GROUPS, COLUMNS, WIDTH = 2, 10, 12
_DISTINCT = 500
_LATE = 200_000

OPTIONS = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
    **{
        f"fields.g{g}.sequence-group": ",".join(
            f"c{i}" for i in range(g * COLUMNS, (g + 1) * COLUMNS)
        )
        for g in range(GROUPS)
    },
}


def schema() -> pa.Schema:
    """`k`, 20 texts c0.., then the sequence columns g0 and g1."""
    fields = [pa.field("k", pa.int64(), nullable=False)]
    fields += [pa.field(f"c{i}", pa.string()) for i in range(GROUPS * COLUMNS)]
    fields += [pa.field(f"g{g}", pa.int64()) for g in range(GROUPS)]
    return pa.schema(fields)


@dataclass(frozen=True)
class GroupCommit:
    """The rows of one commit: texts[column of the group][row]."""

    keys: np.ndarray
    sequences: np.ndarray
    groups: np.ndarray
    texts: tuple[np.ndarray, ...]

    def to_arrow(self) -> pa.Table:
        """All columns; those of the other group are null."""
        others = [pa.array(self.groups != group) for group in range(GROUPS)]
        arrays = [pa.array(self.keys)]
        arrays += [_without(other, _strings(text)) for other in others for text in self.texts]
        arrays += [_without(other, pa.array(self.sequences)) for other in others]
        return pa.table(arrays, schema=schema())

    def group_to_arrow(self, group: int) -> pa.Table:
        """The rows of one group, with its columns only."""
        rows = np.flatnonzero(self.groups == group)
        chosen = schema()
        names = ["k", *[f"c{group * COLUMNS + i}" for i in range(COLUMNS)], f"g{group}"]
        arrays = [
            pa.array(self.keys[rows]),
            *[_strings(text[rows]) for text in self.texts],
            pa.array(self.sequences[rows]),
        ]
        return pa.table(arrays, schema=pa.schema([chosen.field(name) for name in names]))

    def save(self, path: Path) -> Path:
        """Writes the file of the grammar above."""
        with open(path, "wb") as file:
            np.array([len(self.keys), COLUMNS, WIDTH], "<i8").tofile(file)
            self.keys.astype("<i8").tofile(file)
            self.sequences.astype("<i8").tofile(file)
            self.groups.astype("i1").tofile(file)
            for text in self.texts:
                text.tofile(file)
        return path


def commit(
    rng: np.random.Generator, rows: int, keys: np.ndarray, first_sequence: int
) -> GroupCommit:
    """`rows` records of the drawn `keys` (int64[rows]), in the order of arrival."""
    late = rng.integers(0, _LATE, rows)
    return GroupCommit(
        keys=keys,
        sequences=np.arange(first_sequence, first_sequence + rows) - late,
        groups=(np.arange(rows) % GROUPS).astype(np.int8),
        texts=tuple(_texts(rng, rows, i) for i in range(COLUMNS)),
    )


def base_rows(rng: np.random.Generator, keys: np.ndarray) -> pa.Table:
    """Full rows of `keys`, both groups written, with sequences below those of any commit."""
    arrays = [pa.array(keys, pa.int64())]
    arrays += [_strings(_texts(rng, len(keys), i)) for _ in range(GROUPS) for i in range(COLUMNS)]
    oldest = pa.array(np.full(len(keys), -_LATE - 1))
    return pa.table([*arrays, oldest, oldest], schema=schema())


def commits(seed: int, rows: int, keys: int, count: int) -> list[GroupCommit]:
    """`count` commits of `rows` records each, keys drawn from 0 .. keys - 1."""
    rng = np.random.default_rng(seed)
    return [
        commit(rng, rows, rng.integers(0, keys, rows), first_sequence=number * rows)
        for number in range(count)
    ]


def _texts(rng: np.random.Generator, rows: int, column: int) -> np.ndarray:
    if column % 2 == 0:
        words = np.array([f"value-{i:06d}".encode() for i in range(_DISTINCT)], f"S{WIDTH}")
        return words[rng.integers(0, _DISTINCT, rows)]
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    return digits[rng.integers(0, 16, (rows, WIDTH), dtype=np.uint8)].reshape(-1).view(f"S{WIDTH}")


def _strings(texts: np.ndarray) -> pa.Array:
    offsets = np.arange(0, (len(texts) + 1) * WIDTH, WIDTH, dtype=np.int32)
    data = np.ascontiguousarray(texts)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))


def _without(rows: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(rows, pa.scalar(None, values.type), values)
