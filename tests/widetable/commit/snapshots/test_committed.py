"""What snapshots remember: sequence numbers and the last commit of each user."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from tests.widetable.commit.transaction.remembered_snapshots import (
    Snapshots,
    old_remembering,
    remembering,
)
from tests.widetable.commit.transaction.remembered_snapshots import snapshot as snapshot_of
from widetable.commit.snapshots import committed
from widetable.commit.snapshots.committed import (
    COMMIT_USERS,
    DIGEST,
    MAX_SEQUENCE_NUMBER,
    OLD_COMMITS,
    LastCommit,
    highest_sequence_number,
    last_of,
    next_properties,
    remembers,
    users_of,
)
from widetable.errors import DamagedError
from widetable.format.snapshot import BATCH_COMMIT_IDENTIFIER

DAY = 86_400_000


def test_one_snapshot_answers() -> None:
    users = {"job": LastCommit(5, 7, 70, "d"), "other": LastCommit(2, 8, 80)}
    table = Snapshots(snapshot_of(9, properties=remembering(users)))
    known = users_of(table.latest, table.load)
    assert {name: last_of(known, name) for name in ("job", "other", "nobody")} == {
        **users,
        "nobody": None,
    }
    assert table.loaded == []
    assert users_of(None, table.load) == {}


def test_snapshots_of_others_are_passed_and_their_users_noted() -> None:
    table = Snapshots(
        snapshot_of(1, "older", 1),
        snapshot_of(
            2, properties=remembering({"job": LastCommit(5, 1, 9), "flink": LastCommit(3, 1, 9)})
        ),
        snapshot_of(3, "flink", 4, digest="x"),
        snapshot_of(4, "flink", 9, "COMPACT"),
        snapshot_of(5, "batch", BATCH_COMMIT_IDENTIFIER),
        snapshot_of(6, "flink", 2),
        snapshot_of(7, "over", 1, "OVERWRITE"),
    )
    # The identifier of a compaction is not remembered, a lower one does not replace a higher one.
    known = users_of(table.latest, table.load)
    assert {name: last_of(known, name) for name in known} == {
        "job": (5, 1, 9, None),
        "flink": (4, 3, 30, "x"),
        "over": (1, 7, 70, None),
    }
    assert list(users_of(table.latest, table.load))[-1] == "over"
    assert min(table.loaded) == 2


def test_a_table_that_only_others_wrote_is_walked_to_its_oldest_snapshot() -> None:
    table = Snapshots(*(snapshot_of(id, f"u{id}", id) for id in range(4, 8)))
    assert users_of(table.latest, table.load) == {
        f"u{id}": (id, id, 10 * id, None) for id in range(4, 8)
    }
    assert table.loaded == [6, 5, 4, 3]


# What versions before wrote


def test_what_versions_before_remembered_is_read_as_young_as_its_snapshot() -> None:
    table = Snapshots(
        snapshot_of(1, "older", 1),
        snapshot_of(4, properties=old_remembering({"job": (5, 3)})),
        snapshot_of(5, "job", 6),
    )
    assert users_of(table.snapshots[4], table.load) == {"job": (5, 3, 40, None)}
    assert users_of(table.latest, table.load) == {"job": (6, 5, 50, None)}
    assert all(remembers(table.snapshots[id]) is (id == 4) for id in (1, 4, 5))


def test_a_version_before_that_commits_in_between_is_believed() -> None:
    """It walks past snapshots of this version to the last one of its own, and writes what it knows."""
    ours = remembering({"job": LastCommit(5, 3, 30, "d"), "new": LastCommit(1, 4, 40)})
    table = Snapshots(
        snapshot_of(4, "new", 1, properties=ours),
        snapshot_of(5, "job", 6, properties=old_remembering({"job": (6, 5), "new": (1, 4)})),
    )
    assert users_of(table.latest, table.load) == {"job": (6, 5, 50, None), "new": (1, 4, 50, None)}


def test_a_full_list_of_a_version_before_is_made_up_for_by_older_snapshots() -> None:
    """It had forgotten the longest silent users; those that snapshots still name are found once."""
    full = {f"u{number}": (number, 3) for number in range(1024)}
    table = Snapshots(
        snapshot_of(2, "forgotten", 4),
        snapshot_of(3, "u7", 7),
        snapshot_of(4, "u8", 8, properties=old_remembering(full)),
    )
    users = users_of(table.latest, table.load)
    assert len(users) == 1025
    assert users["forgotten"] == (4, 2, 20, None)
    assert users["u7"] == (7, 3, 40, None)
    del full["u0"]
    table.snapshots[4] = snapshot_of(4, "u8", 8, properties=old_remembering(full))
    assert "forgotten" not in users_of(table.snapshots[4], table.load)


# What the next one remembers


def after(
    users: Mapping[str, LastCommit], user: str, commit: LastCommit | None, retention_millis: int = 0
) -> dict[str, LastCommit]:
    text = next_properties(users, 0, user, commit, retention_millis)[COMMIT_USERS]
    return {name: LastCommit(*entry) for name, entry in json.loads(text).items()}


def test_a_commit_moves_its_user_to_the_end() -> None:
    users = {"a": LastCommit(1, 1, 1), "b": LastCommit(2, 2, 2)}
    found = after(users, "a", LastCommit(5, 3, 9, "d"))
    assert list(found.items()) == [("b", (2, 2, 2, None)), ("a", (5, 3, 9, "d"))]
    assert after(users, "a", None) == users
    assert users == {"a": (1, 1, 1, None), "b": (2, 2, 2, None)}


def test_the_digest_stands_beside_its_own_snapshot() -> None:
    assert next_properties({}, 7, "u", LastCommit(1, 1, 1, "d"), 0)[DIGEST] == "d"
    assert DIGEST not in next_properties({}, 7, "u", LastCommit(1, 1, 1), 0)
    users = {"u": LastCommit(1, 1, 1, "d")}
    assert next_properties(users, 7, "other", None, 0) == {
        MAX_SEQUENCE_NUMBER: "7",
        COMMIT_USERS: '{"u":[1,1,1,"d"]}',
    }


def test_users_leave_only_beyond_the_bound_and_only_when_they_are_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(committed, "MAX_USERS", 4)
    users: dict[str, LastCommit] = {}
    for day in range(10):
        commit = LastCommit(0, day + 1, day * DAY)
        users = after(users, f"u{day}", commit, retention_millis=6 * DAY)
        assert {f"u{day - back}" for back in range(7) if back <= day} <= users.keys()
    # Days 3 to 9 are younger than the retention, or just as old, and more than the bound.
    assert list(users) == [f"u{day}" for day in range(3, 10)]
    users = after(users, "u3", LastCommit(1, 11, 9 * DAY), retention_millis=6 * DAY)
    assert list(users)[-1] == "u3"
    users = after(users, "u99", LastCommit(0, 12, 99 * DAY), retention_millis=6 * DAY)
    assert list(users) == ["u8", "u9", "u3", "u99"], "no more leave than the bound asks for"
    assert len(after(users, "u3", LastCommit(2, 13, 999 * DAY), retention_millis=0)) == 4


NO_OBJECT = ["", "[]", "{", "7"]
NO_ENTRY = ["1", "[]", "[1]", "[1,2,3]", "[1,2,3,4]", '["1",2,3,null]', "[true,2,3,null]", "{}"]
NO_ENTRY_NOW = [*NO_ENTRY, "[1,2]", "[1,2,3.5,null]", '[1,2,3,"d",5]', '[1,2,3,["d"]]']
NO_ENTRY_BEFORE = [*NO_ENTRY, "[1.5,2]", '["1",2]', '[1,2,3,"d"]']


@pytest.mark.parametrize("key", [COMMIT_USERS, OLD_COMMITS])
@pytest.mark.parametrize("text", NO_OBJECT)
def test_a_property_that_is_no_such_thing_is_damaged(key: str, text: str) -> None:
    table = Snapshots(snapshot_of(9, properties={key: text}))
    with pytest.raises(DamagedError, match=f"{key}.* of snapshot 9"):
        users_of(table.latest, table.load)


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        *((COMMIT_USERS, entry) for entry in NO_ENTRY_NOW),
        *((OLD_COMMITS, entry) for entry in NO_ENTRY_BEFORE),
    ],
)
def test_a_user_that_is_no_such_thing_is_damaged(key: str, entry: str) -> None:
    right = "[1,2,3,null]" if key == COMMIT_USERS else "[1,2]"
    table = Snapshots(snapshot_of(9, properties={key: f'{{"u":{entry},"v":{right}}}'}))
    with pytest.raises(DamagedError, match=r"widetable\.commit"):
        last_of(users_of(table.latest, table.load), "u")


def test_highest_sequence_number() -> None:
    assert highest_sequence_number(snapshot_of(1)) is None
    assert highest_sequence_number(snapshot_of(1, properties={MAX_SEQUENCE_NUMBER: "12"})) == 12
    with pytest.raises(DamagedError, match="max-sequence-number"):
        highest_sequence_number(snapshot_of(1, properties={MAX_SEQUENCE_NUMBER: "x"}))
