"""Random tables for histories: schema, options and rules that go together, and bit patterns for their columns."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tests.histories.oracle import Group, Rules
from tests.support.models.bit_patterns import FLAT, draw_column, draw_type

KEYS = 6
# Floats have no text that all versions of Java agree on, binaries none at all.
PARTITIONS = [kind for kind in FLAT if not (pa.types.is_floating(kind) or pa.types.is_binary(kind))]
LAYOUT: Mapping[str, tuple[str, ...]] = {
    "bucket": ("1", "3"),
    "num-sorted-run.compaction-trigger": ("2", "5"),
    "target-file-size": ("1 kb", "128 mb"),
    "write-buffer-size": ("64 kb", "256 mb"),  # an audit reads a bucket once per buffer of rows
    "manifest.merge-min-count": ("2", "30"),
    "widetable.lookup-strategy": ("scan", "lookup"),
    "widetable.inline-compaction-size": ("0 b", "16 mb"),
    "widetable.level0-columns": ("written", "all"),
    "write-only": ("true", "false", "false"),
}


@dataclass(frozen=True)
class DrawnTable:
    """pools: what each column's values are drawn from; row i of the key's columns is one key."""

    rules: Rules
    partition_by: tuple[str, ...]
    options: Mapping[str, str]
    pools: Mapping[str, pa.Array]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [pa.field(n, t, nullable=n not in self.rules.key) for n, t in self.rules.types.items()]
        )

    @property
    def has_retractions(self) -> bool:
        rules = self.rules
        return (
            not rules.is_partial
            or bool(rules.groups)
            or rules.removes_on_delete
            or rules.ignores_deletes
        )


def draw_table(rng: random.Random, longest: int = 2000) -> DrawnTable:
    """longest: bytes of a text or binary at most."""
    key = tuple(f"k{i}" for i in range(rng.randint(1, 3)))
    types = {name: rng.choice(FLAT) for name in key}
    partition_by = key[:1] if len(key) > 1 and rng.random() < 0.5 else ()
    types |= {name: rng.choice(PARTITIONS) for name in partition_by}
    is_partial = rng.random() < 0.7
    producer = rng.choice(["none", "input", "lookup", "lookup", "full-compaction"])
    options = {name: rng.choice(values) for name, values in LAYOUT.items()} | {
        "merge-engine": "partial-update" if is_partial else "deduplicate",
        "changelog-producer": producer,
        "widetable.fsync": "false",
    }
    groups = tuple(_groups(rng, types)) if is_partial else ()
    types |= {f"v{i}": draw_type(rng) for i in range(rng.randint(1, 3))}
    for group in groups:
        options[f"fields.{','.join(group.sequence)}.sequence-group"] = ",".join(group.protected)
    order: tuple[str, ...] = ()
    if rng.random() < 0.4 and not (is_partial and producer in ("lookup", "full-compaction")):
        order = ("o",)
        types["o"] = rng.choice(FLAT)
        options["sequence.field"] = "o"
    is_descending = bool(order) and rng.random() < 0.4
    if is_descending:
        options["sequence.field.sort-order"] = "descending"
    removal = rng.choice(["none", "remove", "ignore"]) if is_partial and not order else "none"
    if removal == "ignore" and groups:
        removal = "none"
    removers = (rng.choice(groups),) if removal == "remove" and groups else ()
    if removers:
        name = rng.choice(removers[0].sequence)
        options["partial-update.remove-record-on-sequence-group"] = name
    elif removal == "remove":
        options["partial-update.remove-record-on-delete"] = "true"
    elif removal == "ignore":
        options["ignore-delete"] = "true"
    rules = Rules(
        types,
        key,
        is_partial,
        groups,
        order,
        is_descending,
        removal == "remove" and not groups,
        removers,
        removal == "ignore",
    )
    return DrawnTable(rules, partition_by, options, _pools(rng, rules, partition_by, longest))


def _groups(rng: random.Random, types: dict[str, pa.DataType]) -> list[Group]:
    """Adds their columns to the types."""
    found = []
    for g in range(rng.choice((0, 1, 2))):
        sequence = tuple(f"g{g}s{i}" for i in range(rng.choice((1, 1, 2))))
        protected = tuple(f"g{g}v{i}" for i in range(rng.randint(1, 2)))
        types |= {name: rng.choice(FLAT) for name in sequence}
        types |= {name: draw_type(rng) for name in protected}
        found.append(Group(sequence, protected))
    return found


def _pools(
    rng: random.Random, rules: Rules, partition_by: tuple[str, ...], longest: int
) -> dict[str, pa.Array]:
    return {
        name: draw_column(
            rng,
            kind,
            KEYS,
            nulls=name not in rules.key,
            longest=50 if name in partition_by else longest,
        )
        for name, kind in rules.types.items()
    }
