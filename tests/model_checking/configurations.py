"""The configurations that are searched, by name, and for each planted mistake the one that must show it.

`search` explores one: RuntimeError where it has more states than a search may have.
"""

from __future__ import annotations

from typing import Final

from tests.model_checking.chain import forget
from tests.model_checking.configuration import Configuration, Job, Mistake, Root
from tests.model_checking.order import Order
from tests.model_checking.overlap import Overlap
from tests.model_checking.protocol import Protocol
from tests.model_checking.revision import Revision
from tests.model_checking.search import Explored, explore

REVISION: Final = (
    "revision"  # a cascading rollback that dies in the middle, while jobs and readers go on
)

_X: Final = Root(("X",), 1)
_X_TWICE: Final = Root(("X",), 2)
_Z: Final = Job(("X",), "Z")
_Y: Final = Job(("X",), "Y")
_Z_OF_BOTH: Final = Job(("X", "Y"), "Z")

CONFIGURATIONS: Final[dict[str, Configuration]] = {
    # X: two root writers; its changelog comes by a compactor that lags. Z: a job over X. Two layers
    "changelog": Configuration({"a": _X, "b": _X}, {"q": _Z}, ("X",), crashes=1),
    # a compaction that commits in groups and dies between them
    "groups": Configuration({"a": _X, "b": _X}, {"q": _Z}, ("X",), crashes=2, in_groups=True),
    # the same without jobs, more batches, and micro-batches shorter than a barrier
    "open": Configuration({"a": _X_TWICE, "b": _X}, {}, ("X",), crashes=1, is_open=True),
    # commits look first and publish later: the race for a snapshot id
    "races": Configuration({"a": _X, "b": _X}, {}, ("X",), crashes=1, is_racing=True),
    # two layers, two writers in each: X by roots a and b, Z by jobs q and r
    "layers": Configuration({"a": _X, "b": _X}, {"q": _Z, "r": _Z}, crashes=1),
    # a root query with two sinks, a job with two sources
    "sinks": Configuration({"a": Root(("X", "Y"), 2)}, {"q": _Z_OF_BOTH}, crashes=1),
    # the same with a second writer in X
    "sinks2": Configuration({"a": Root(("X", "Y"), 1), "b": _X}, {"q": _Z_OF_BOTH}, crashes=1),
    # expiry of both tables, a slow reader with pins, changelog by compaction
    "expiry": Configuration({"a": _X, "b": _X}, {"q": _Z}, ("X",), expiring=("X", "Z"), sessions=1),
    # expiry against a job that crashes after its commit and must run the batch again
    "again": Configuration({"a": _X_TWICE}, {"q": _Z}, ("X",), expiring=("X",), crashes=1),
    # two tables by two jobs, of which one may be ahead, expire
    "floor": Configuration({"a": _X}, {"q": _Y, "r": _Z}, expiring=("X", "Y"), sessions=1),
    # a writer that is declared gone, and comes back or not
    "leave": Configuration({"a": _X, "b": _X_TWICE}, {"q": _Z}, leaver="b"),
    # the same for a job: what it commits after it was away belongs to the next barrier
    "away": Configuration({"a": _X}, {"q": _Z, "r": _Z}, leaver="q"),
    # one that comes late
    "late": Configuration({"a": _X_TWICE, "l": _X}, {"q": _Z}, late="l"),
    # many barriers; jobs and compactor that skip: is there always a common barrier?
    "skips": Configuration({"a": _X}, {"q": _Y, "r": _Z}, ("X",), barriers=5, is_rounding=True),
}
# The same with larger bounds; minutes each.
LARGE: Final[dict[str, Configuration]] = {
    "changelog+": Configuration({"a": _X_TWICE, "b": _X}, {"q": _Z}, ("X",), crashes=1),
    "layers+": Configuration({"a": _X, "b": _X}, {"q": _Z, "r": _Z}, ("X",)),
    "away+": Configuration({"a": _X_TWICE}, {"q": _Z, "r": _Z}, barriers=3, leaver="q"),
    "sinks+": Configuration({"a": Root(("X", "Y"), 2), "b": _X}, {"q": _Z_OF_BOTH}, crashes=1),
}

MISTAKES: Final[dict[Mistake, str]] = {
    "reader_takes_newest": "expiry",
    "compaction_not_cut": "changelog",
    "first_group_is_taken_for_all": "groups",
    "next_cut_is_higher": "groups",
    "label_not_checked": "races",
    "plan_not_durable": "changelog",
    "sources_ask_alone": "sinks",
    "any_source_decides": "sinks",
    "label_per_sink": "sinks",
    "follower_pushed": "sinks",
    "expiry_without_floor": "floor",
    "expiry_without_pins": "expiry",
    "consumer_too_early": "again",
    "join_at_zero": "late",
    "zombie": "leave",
    "catch_up_completes": "away",
    "skip_to_newest": "skips",
    "reader_takes_newest_revision": REVISION,
    "old_writer_is_not_refused": REVISION,
    "what_follows_is_taken": "order-shared",
    "labels_go_back": "order-own",
    "who_left_is_forgotten": "order-own",
    "what_waits_is_forgotten": "order-own",
    "overtaken_is_published": "overlap-rows",
    "looks_once": "overlap-columns",
    "only_columns_count": "overlap-columns",
}
# In which order records meet: two writers of one column, and of a column each.
ORDERS: Final = {"order-shared": True, "order-own": False}

# Writers that overlap: whether rows are merged column by column.
OVERLAPS: Final = {"overlap-rows": False, "overlap-columns": True}


def search(name: str, mistake: Mistake | None = None) -> Explored:
    forget()
    if name == REVISION:
        return explore(Revision(last=3, to=1, crashes=2, mistake=mistake))
    if name in ORDERS:
        return explore(Order(last=3, batches=2, is_shared=ORDERS[name], mistake=mistake))
    if name in OVERLAPS:
        return explore(Overlap(OVERLAPS[name], mistake))
    return explore(Protocol((CONFIGURATIONS | LARGE)[name], mistake))
