"""What may not meet in a table, with the reason. Pure.

A rule says which values of two dimensions do not go together: the product refuses them (`REFUSED`, which
test_refused_pairs.py holds), or the documents say that they have no common meaning to check (`APART`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.pairs.covering import Choice
from tests.pairs.dimensions import DIMENSIONS, FOLLOWERS, OF_SPARK


@dataclass(frozen=True)
class Rule:
    """one, other: a dimension and its values that do not meet the other's. refused: kinds of error that the product
    raises, "" where it does not: the reason says why nobody checks it.
    """

    one: tuple[str, tuple[str, ...]]
    other: tuple[str, tuple[str, ...]]
    refused: str
    reason: str

    def forbids(self, first: Choice, second: Choice) -> bool:
        return (_has(self.one, first) and _has(self.other, second)) or (
            _has(self.one, second) and _has(self.other, first)
        )

    def pairs(self) -> list[tuple[Choice, Choice]]:
        (name, values), (other, others) = self.one, self.other
        return [((name, value), (other, meets)) for value in values for meets in others]


def _has(of: tuple[str, tuple[str, ...]], choice: Choice) -> bool:
    return choice[0] == of[0] and choice[1] in of[1]


_UNDER_BARRIERS: Final = ("barrier", ("barriers", "staged", "later"))
_SPARK_WRITES: Final = ("client", OF_SPARK["client"])
_VECTORS: Final = ("vectors", ("32 bits", "64 bits"))
_APPEND: Final = ("engine", ("append",))
_KEYED: Final = ("engine", tuple(name for name in DIMENSIONS["engine"] if name != "append"))
_POSTPONED: Final = ("bucket", ("postponed",))
_NO_DELETES: Final = ("partial-update", "partial-update by order", "aggregation", "first-row")
REFUSED: Final = (
    Rule(
        _UNDER_BARRIERS,
        _VECTORS,
        "UnsupportedError",
        "acceptance/barrier_rules.py: a vector changes rows without a writer",
    ),
    Rule(
        _UNDER_BARRIERS,
        ("producer", ("full-compaction",)),
        "UnsupportedError",
        "decision 0042: what moved up would not be what was emitted",
    ),
    Rule(
        _UNDER_BARRIERS,
        ("bucket", ("dynamic",)),
        "UnsupportedError",
        "acceptance/barrier_rules.py: a fixed number of buckets",
    ),
    Rule(
        _UNDER_BARRIERS,
        ("removal", ("delete", "delete keys", "rewrite", "partition")),
        "InvalidError UnsupportedError",
        "rows are writers'; those of a complete barrier stay (check_rows_stay)",
    ),
    Rule(
        _UNDER_BARRIERS,
        ("history", ("rollback", "rescale", "copy")),
        "UnsupportedError",
        "rows of a complete barrier are where they were (check_rows_stay)",
    ),
    Rule(
        _UNDER_BARRIERS,
        ("branch", ("fast-forward",)),
        "UnsupportedError",
        "rows of a complete barrier are where they were (check_rows_stay)",
    ),
    Rule(
        _VECTORS,
        ("engine", ("first-row", "partial-update by order")),
        "UnsupportedError",
        "acceptance/supported.py: a row above level 0 is not the whole row of its key",
    ),
    Rule(
        _VECTORS,
        ("producer", ("full-compaction",)),
        "UnsupportedError",
        "acceptance/supported.py",
    ),
    Rule(
        ("engine", ("partial-update by order",)),
        ("producer", ("lookup", "full-compaction")),
        "UnsupportedError",
        "decision 0002: a merged row has no one place in the order",
    ),
    Rule(
        ("engine", ("first-row",)),
        ("producer", ("input", "full-compaction")),
        "InvalidError UnsupportedError",
        "decision 0037: its changelog is that of lookup",
    ),
    Rule(
        ("engine", (*_NO_DELETES, "groups")),
        ("removal", ("delete", "delete keys")),
        "UnsupportedError",
        "operations/writes/delete.py: a -D removes no row there",
    ),
    Rule(
        ("engine", ("first-row",)),
        ("removal", ("records",)),
        "InvalidError",
        "a -D means nothing there",
    ),
    Rule(
        ("bucket", ("one", "three", "dynamic", "postponed", "free")),
        ("removal", ("partition",)),
        "InvalidError",
        "the table has no partitions",
    ),
    Rule(
        ("bucket", ("dynamic",)),
        ("history", ("rescale",)),
        "InvalidError UnsupportedError",
        "an index says where a key is",
    ),
    Rule(
        ("bucket", ("dynamic",)),
        ("writers", ("two tasks",)),
        "UnsupportedError",
        "decision 0032: one task gives new keys their buckets",
    ),
    Rule(
        ("bucket", ("dynamic",)),
        _SPARK_WRITES,
        "UnsupportedError",
        "decision 0032: a task of Spark is one of several",
    ),
    Rule(
        _POSTPONED,
        _UNDER_BARRIERS,
        "UnsupportedError",
        "decision 0092: a compaction, not its writer, makes a row visible",
    ),
    Rule(
        _POSTPONED,
        ("producer", ("input",)),
        "UnsupportedError",
        "decision 0092: who reads changes would be given rows that scans pass over",
    ),
    Rule(
        _POSTPONED,
        ("history", ("rescale",)),
        "UnsupportedError",
        "decision 0092: a partition keeps its number of buckets",
    ),
    Rule(
        _APPEND,
        ("producer", ("input", "lookup", "full-compaction")),
        "UnsupportedError",
        "append_rules.py: no row replaces another, so what was appended is the changelog",
    ),
    Rule(
        _APPEND,
        _UNDER_BARRIERS,
        "UnsupportedError",
        "append_rules.py: numbers of records say what came before a barrier",
    ),
    Rule(_APPEND, _POSTPONED, "UnsupportedError", "decision 0092: a key says where rows go"),
    Rule(
        _APPEND,
        ("removal", ("records", "delete keys")),
        "InvalidError UnsupportedError",
        "no row is found by a key",
    ),
    Rule(_APPEND, ("history", ("rescale",)), "UnsupportedError", "no key says where a row goes"),
    Rule(
        _KEYED,
        ("compaction", ("sorted",)),
        "UnsupportedError",
        "a table with a key is sorted by it",
    ),
    Rule(
        ("bucket", ("one", "three", "partitions")),
        ("compaction", ("sorted",)),
        "UnsupportedError",
        "the rows of a bucket keep the order of their writers",
    ),
    Rule(
        _KEYED,
        ("removal", ("update rows",)),
        "UnsupportedError",
        "operations/writes/update.py: rows with the key replace those of a table",
    ),
)
APART: Final = (
    Rule(
        ("engine", ("partial-update", "partial-update by order", "aggregation")),
        ("removal", ("records",)),
        "",
        "semantics: a retraction that meets other records has no meaning; refused when it is merged",
    ),
    Rule(
        ("reader", FOLLOWERS),
        ("removal", ("rewrite", "partition")),
        "",
        "Table.delete: readers of changes do not see an overwrite",
    ),
    Rule(
        ("reader", FOLLOWERS),
        ("history", ("rollback", "copy")),
        "",
        "a follower ends before it, with an error (tests of rollback); a copy has another history",
    ),
    Rule(
        ("reader", FOLLOWERS),
        ("branch", ("fast-forward", "of a tag", "empty")),
        "",
        "what a follower has read is dropped, or it is of another branch",
    ),
    Rule(
        ("environment", ("read-only disk", "optimised")),
        ("reader", ("follow",)),
        "",
        "its consumer writes how far it is",
    ),
    Rule(
        ("client", ("pypaimon",)),
        _UNDER_BARRIERS,
        "",
        "a stranger's commit belongs to whatever comes next (test_barrier_histories has its oracle)",
    ),
    Rule(
        _SPARK_WRITES,
        _UNDER_BARRIERS,
        "",
        "a commit without a barrier belongs to whatever comes next; with one: test_root_stream, test_bank",
    ),
    Rule(
        ("reader", ("pypaimon",)),
        ("environment", ("object store",)),
        "",
        "its client of stores is its own; the bytes there are those of a disk (tests/object_stores/test_tables)",
    ),
    Rule(
        ("reader", ("pypaimon",)),
        ("removal", ("records",)),
        "",
        "it merges a retraction of a row that is not there otherwise (test_pypaimon_differs)",
    ),
    Rule(
        ("reader", ("pypaimon", *OF_SPARK["reader"])),
        ("environment", ("no temporary directory", "read-only disk", "optimised", "restart")),
        "",
        "what reads is in processes of its own, which are not so (tests/spark/reading/test_read_only_tables)",
    ),
    Rule(
        _SPARK_WRITES,
        ("environment", ("no temporary directory",)),
        "",
        "Spark itself needs one",
    ),
    Rule(
        _SPARK_WRITES,
        ("environment", ("restart",)),
        "",
        "each of its commits is of another process as it is; a forked driver cannot ask its Java",
    ),
    Rule(
        ("client", ("pypaimon",)),
        ("environment", ("object store",)),
        "",
        "its client of stores is its own; the bytes there are those of a disk (tests/object_stores/test_tables)",
    ),
    Rule(
        ("client", ("pypaimon",)),
        ("bucket", ("dynamic",)),
        "",
        "it does not keep the hash index",
    ),
    Rule(
        ("client", ("pypaimon",)),
        _VECTORS,
        "",
        "it leaves those of rows that are merged to its Python, which refuses them (test_random_tables)",
    ),
    Rule(
        ("bucket", ("dynamic",)),
        ("writers", ("overtaken",)),
        "",
        "decision 0032: of two writers with one new key the later is refused (test_dynamic_tables)",
    ),
    Rule(
        ("reader", FOLLOWERS),
        ("branch", ("written as a branch",)),
        "",
        "the consumer of main does not go on in a branch",
    ),
    Rule(
        _APPEND,
        (
            "reader",
            ("lookup", "lookup session", "lookup join", "explain", "spark lookup join"),
        ),
        "",
        "no row is found by a key: refused (tests/append/test_writing.py, tests/spark/writing)",
    ),
    Rule(
        _APPEND,
        ("bucket", ("dynamic",)),
        "",
        "bucket = -1 is another thing there: free",
    ),
    Rule(
        _KEYED,
        ("bucket", ("free", "free partitions")),
        "",
        "bucket = -1 is another thing there: dynamic",
    ),
    Rule(
        _APPEND,
        ("removal", ("delete",)),
        "",
        "no record removes a row there: delete rows",
    ),
    Rule(
        _KEYED,
        ("removal", ("delete rows",)),
        "",
        "a condition on values removes rows by records there: delete",
    ),
    Rule(
        ("reader", FOLLOWERS),
        ("removal", ("delete rows", "update rows")),
        "",
        "Table.delete: readers of changes do not see an overwrite",
    ),
    Rule(
        _POSTPONED,
        ("reader", FOLLOWERS),
        "",
        "changes need a changelog producer there, which is a third value (tests/postponed follows such tables)",
    ),
)
# What needs a table with a primary key, and what needs one without: so do two of them that exclude each other's.
_NEEDS_A_KEY: Final = {
    "producer": ("input", "lookup", "full-compaction"),
    "barrier": ("barriers", "staged", "later"),
    "bucket": ("postponed", "dynamic"),
    "removal": ("records", "delete", "delete keys"),
    "history": ("rescale",),
    "reader": ("lookup", "lookup session", "lookup join", "explain", "spark lookup join"),
}
_NEEDS_NO_KEY: Final = {
    "compaction": ("sorted",),
    "bucket": ("free", "free partitions"),
    "removal": ("delete rows", "update rows"),
}
_OF_DIFFERENT_TABLES: Final = tuple(
    Rule(free, keyed, "", "one needs a table with a primary key, the other one without")
    for free in _NEEDS_NO_KEY.items()
    for keyed in _NEEDS_A_KEY.items()
    if free[0] != keyed[0]
)
RULES: Final = REFUSED + APART + _OF_DIFFERENT_TABLES


@cache
def may_meet(one: Choice, other: Choice) -> bool:
    """Whether no rule forbids it."""
    return not any(rule.forbids(one, other) for rule in RULES)
