"""What may meet in a table, by dimension. The first value of each is the plain one, which meets everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.pairs.covering import Row

DIMENSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "engine": (
        "deduplicate",
        "deduplicate by order",
        "partial-update",
        "partial-update by order",
        "groups",
        "groups that remove",
        "partial-update that removes",
        "aggregation",
        "aggregation that removes",
        "first-row",
        "append",
    ),
    "producer": ("none", "input", "lookup", "full-compaction"),
    "bucket": ("one", "three", "dynamic", "partitions", "postponed", "free", "free partitions"),
    "vectors": ("none", "32 bits", "64 bits"),
    "indexes": ("none", "bloom", "bitmaps", "inline"),
    "compaction": ("inline", "write-only", "by a job", "full", "sorted"),
    "writers": ("one", "two tasks", "overtaken"),
    "barrier": ("none", "barriers", "staged", "later"),
    "branch": ("none", "of a tag", "fast-forward", "empty", "written as a branch"),
    "evolution": ("none", "add", "drop", "rename", "widen", "swap", "move"),
    "removal": (
        "none",
        "records",
        "delete",
        "delete keys",
        "delete rows",
        "update rows",
        "rewrite",
        "partition",
    ),
    "history": ("none", "expiry", "tag and expiry", "rollback", "rescale", "copy", "maintain"),
    "client": ("none", "pypaimon", "spark batch", "spark stream"),
    "reader": (
        "scan",
        "columns and condition",
        "condition on values",
        "time travel",
        "lookup",
        "lookup session",
        "lookup join",
        "follow",
        "command line",
        "explain",
        "pypaimon",
        "spark read",
        "spark condition",
        "spark source",
        "spark lookup join",
        "spark changes",
    ),
    "environment": (
        "plain",
        "small budgets",
        "another zone",
        "no temporary directory",
        "read-only disk",
        "optimised",
        "object store",
        "restart",
    ),
}
# What needs a session of Spark.
OF_SPARK: Final = {
    "client": ("spark batch", "spark stream"),
    "reader": (
        "spark read",
        "spark condition",
        "spark source",
        "spark lookup join",
        "spark changes",
    ),
}
# Who is given changes, not rows.
FOLLOWERS: Final = ("follow", "spark changes")
PLAIN: Final[Row] = {name: values[0] for name, values in DIMENSIONS.items()}
