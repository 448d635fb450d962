"""What snapshots remember: sequence numbers and the last identifier of each user."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from widetable.commit.committed import (
    COMMITS,
    MAX_SEQUENCE_NUMBER,
    MAX_USERS,
    CommitHistory,
    Committed,
    commits_of,
    highest_sequence_number,
    next_properties,
)
from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot


def snapshot(
    id: int,
    user: str = "u",
    identifier: int = 0,
    kind: str = "APPEND",
    properties: Mapping[str, str] | None = None,
) -> Snapshot:
    return Snapshot(
        id=id,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user=user,
        commit_identifier=identifier,
        commit_kind=kind,
        time_millis=0,
        total_record_count=0,
        delta_record_count=0,
        properties=properties or {},
    )


class Table:
    """Snapshots by id, and which were loaded."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self.snapshots = {each.id: each for each in snapshots}
        self.latest = snapshots[-1]
        self.loaded: list[int] = []

    def load(self, id: int) -> Snapshot:
        self.loaded.append(id)
        if id not in self.snapshots:
            raise NotFoundError("s", found="-", expected="-", action="-")
        return self.snapshots[id]

    def find(self, user: str, identifier: int) -> Committed | None:
        return CommitHistory(self.load, user, identifier).find(self.latest)


def remembering(commits: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    return {COMMITS: json.dumps(commits)}


def test_one_snapshot_answers() -> None:
    table = Table(snapshot(9, properties=remembering({"job": (5, 7)})))
    assert table.find("job", 5) == Committed(7)
    assert table.find("job", 4) == Committed(None)
    assert table.find("job", 6) is None
    assert table.find("other", 0) is None
    assert table.find("job", BATCH_COMMIT_IDENTIFIER) is None
    assert table.loaded == []


def test_a_batch_commit_is_not_looked_for() -> None:
    table = Table(snapshot(8), snapshot(9))
    assert table.find("job", BATCH_COMMIT_IDENTIFIER) is None
    assert table.loaded == []


def test_no_snapshot_no_commit() -> None:
    assert CommitHistory(Table(snapshot(1)).load, "job", 0).find(None) is None


def test_snapshots_of_others_are_passed_and_their_users_noted() -> None:
    table = Table(
        snapshot(1, "older", 1),
        snapshot(2, properties=remembering({"job": (5, 1), "flink": (3, 1)})),
        snapshot(3, "flink", 4),
        snapshot(4, "flink", 9, "COMPACT"),
        snapshot(5, "batch", BATCH_COMMIT_IDENTIFIER),
        snapshot(6, "flink", 2),
        snapshot(7, "over", 1, "OVERWRITE"),
    )
    # The identifier of a compaction is not remembered, a lower one does not replace a higher one.
    assert commits_of(table.latest, table.load) == {"job": (5, 1), "flink": (4, 3), "over": (1, 7)}
    assert list(commits_of(table.latest, table.load))[-1] == "over"
    assert min(table.loaded) == 2


def test_a_table_that_only_others_wrote_is_walked_to_its_oldest_snapshot() -> None:
    table = Table(*(snapshot(id, f"u{id}", id) for id in range(4, 8)))
    assert commits_of(table.latest, table.load) == {f"u{id}": (id, id) for id in range(4, 8)}
    assert table.loaded == [6, 5, 4, 3]


def test_the_longest_silent_user_leaves_first() -> None:
    commits: dict[str, tuple[int, int]] = {}
    for number in range(MAX_USERS + 3):
        text = next_properties(commits, 0, (f"u{number}", number, number + 1))[COMMITS]
        commits = {user: (pair[0], pair[1]) for user, pair in json.loads(text).items()}
        if number == MAX_USERS - 1:
            again = next_properties(commits, 0, ("u0", 99, number + 2))[COMMITS]
            commits = {user: (pair[0], pair[1]) for user, pair in json.loads(again).items()}
    assert len(commits) == MAX_USERS
    assert commits["u0"] == (99, MAX_USERS + 1)
    assert [user for user in ("u1", "u2", "u3", "u4") if user in commits] == ["u4"]


def test_batch_commits_are_not_remembered() -> None:
    assert next_properties({"u": (1, 1)}, 7, ("b", BATCH_COMMIT_IDENTIFIER, 2)) == {
        MAX_SEQUENCE_NUMBER: "7",
        COMMITS: '{"u":[1,1]}',
    }


def test_a_user_that_a_full_list_does_not_name_is_looked_for_in_old_snapshots_once() -> None:
    full = remembering({f"u{number}": (number, 3) for number in range(MAX_USERS)})
    table = Table(
        snapshot(2, "job", 4),
        snapshot(3, "job", 5),
        snapshot(4, "job", 8, "COMPACT"),
        snapshot(5, properties=full),
    )
    assert table.find("job", 5) == Committed(3)
    assert table.find("job", 4) == Committed(None)
    assert table.find("job", 6) is None
    history = CommitHistory(table.load, "new", 0)
    assert history.find(table.latest) is None
    table.loaded.clear()
    table.snapshots[6] = snapshot(6, "x", 1, properties=full)
    assert history.find(table.snapshots[6]) is None
    assert table.loaded == [5]
    table.snapshots[7] = snapshot(7, "new", 0, properties=full)
    assert history.find(table.snapshots[7]) == Committed(7)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"u":1}', '{"u":[1]}', '{"u":["1",2]}', '{"u":[1,2,3]}', '{"u":[1.5,2]}'],
)
def test_a_property_that_is_no_such_thing_is_damaged(text: str) -> None:
    with pytest.raises(DamagedError, match="snapshot 9"):
        commits_of(snapshot(9, properties={COMMITS: text}), Table(snapshot(9)).load)


def test_highest_sequence_number() -> None:
    assert highest_sequence_number(snapshot(1)) is None
    assert highest_sequence_number(snapshot(1, properties={MAX_SEQUENCE_NUMBER: "12"})) == 12
    with pytest.raises(DamagedError, match="max-sequence-number"):
        highest_sequence_number(snapshot(1, properties={MAX_SEQUENCE_NUMBER: "x"}))
