"""A commit that comes again is believed only when it is proven; all else of its number is a collision."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.faults.faults import FaultyFileIO
from tests.widetable.commit.transaction.fake_table import (
    committer,
    data_file,
    live_names,
    make_table,
    metadata_files,
    named_metadata_files,
    written,
)
from tests.widetable.commit.transaction.remembered_snapshots import (
    Snapshots,
    old_remembering,
    remembering,
    snapshot,
)
from widetable.commit.snapshots.committed import LastCommit
from widetable.commit.transaction import replay
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.committer import Committer
from widetable.commit.transaction.replay import CommitHistory, Replay, is_proven
from widetable.errors import InvalidError
from widetable.format.snapshot import BATCH_COMMIT_IDENTIFIER
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)
LAST = LastCommit(5, 50, 500, "a")
UNKNOWN = LastCommit(5, 50, 500)
BELOW = LastCommit(3, 30, 300, "a")


@pytest.mark.parametrize(
    ("by", "last", "same", "expected"),
    [
        (Identity("u", 5, "a"), LAST, LAST, True),
        (Identity("u", 5), LAST, LAST, True),
        (Identity("u", 5, "a"), UNKNOWN, UNKNOWN, True),
        (Identity("u", 5), UNKNOWN, UNKNOWN, True),
        (Identity("u", 5, "b"), LAST, LAST, False),
        (Identity("u", 5, "b", replay=True), LAST, LAST, True),
        (Identity("u", 3, "a"), LAST, BELOW, True),
        (Identity("u", 3, "b"), LAST, BELOW, False),
        (Identity("u", 3), LAST, BELOW, False),
        (Identity("u", 3, "a"), LAST, LastCommit(3, 30, 300), False),
        (Identity("u", 3, "a"), LAST, None, False),
        (Identity("u", 3), LAST, None, False),
        (Identity("u", 3, replay=True), LAST, None, True),
        (Identity("u", 3, "b", replay=True), LAST, BELOW, True),
    ],
)
def test_what_is_proven(
    by: Identity, last: LastCommit, same: LastCommit | None, expected: bool
) -> None:
    assert is_proven(by, last, same) is expected


# By snapshots


def asked(table: Snapshots, by: Identity) -> Replay | None:
    return CommitHistory(table.load, by, "/wh/t").replay(table.latest)


def collides(table: Snapshots, by: Identity) -> bool:
    try:
        asked(table, by)
    except InvalidError:
        return True
    return False


@pytest.mark.parametrize(
    "by",
    [
        Identity("other", 5, "a"),
        Identity("job", 6, "a"),
        Identity("job", 6),
        Identity("job", 6, "a", replay=True),
        Identity("job", BATCH_COMMIT_IDENTIFIER),
    ],
)
def test_what_is_above_the_last_one_or_counts_each_time_is_new(by: Identity) -> None:
    assert asked(Snapshots(snapshot(9, properties=remembering({"job": LAST}))), by) is None


def test_one_snapshot_answers_for_the_last_commit() -> None:
    table = Snapshots(snapshot(9, properties=remembering({"job": LastCommit(5, 7, 70, "a")})))
    assert asked(table, Identity("job", 5, "a")) == Replay(7)
    assert asked(table, Identity("job", 5)) == Replay(7)
    assert asked(table, Identity("job", 6, "a")) is None
    assert asked(table, Identity("other", 0)) is None
    assert asked(table, Identity("job", BATCH_COMMIT_IDENTIFIER)) is None
    assert collides(table, Identity("job", 5, "b"))
    assert table.loaded == []


def test_a_lower_one_is_compared_while_its_snapshot_is_kept() -> None:
    users = remembering({"job": LastCommit(5, 8, 80, "five")})
    table = Snapshots(
        snapshot(4, "job", 2, digest="two"),
        snapshot(5, "other", 3, digest="three"),
        snapshot(6, "job", 3, "COMPACT"),
        snapshot(7, "job", 3),
        snapshot(8, "job", 5, digest="five"),
        snapshot(9, "x", 1, properties=users),
    )
    assert asked(table, Identity("job", 2, "two")) == Replay(4)
    assert asked(table, Identity("job", 1, replay=True)) == Replay(None)
    assert asked(table, Identity("job", 2, replay=True)) == Replay(4)
    for number, digest in ((2, None), (2, "other"), (3, "three"), (3, None), (4, "x"), (0, "zero")):
        assert collides(table, Identity("job", number, digest))
    del table.snapshots[4]
    assert collides(table, Identity("job", 2, "two"))


def test_what_a_version_before_remembered_has_no_digest() -> None:
    table = Snapshots(snapshot(9, properties=old_remembering({"job": (5, 7)})))
    assert asked(table, Identity("job", 5, "a")) == Replay(7)
    assert collides(table, Identity("job", 4, "a"))


def test_the_error_says_who_collides_with_what_and_what_to_change() -> None:
    users = {"job": LastCommit(5, 7, 1_700_000_000_000, "abc")}
    table = Snapshots(snapshot(9, properties=remembering(users)))
    with pytest.raises(InvalidError) as raised:
        asked(table, Identity("job", 4, "xyz"))
    reported = str(raised.value)
    for part in ("commit 4", "'job'", "/wh/t", "commit 5", "snapshot 7", "2023-11-14T22:13:20"):
        assert part in reported
    for part in ("abc", "xyz", "another commit user", "new checkpoint", "sum", "replay=True"):
        assert part in reported


def test_a_user_that_a_full_list_does_not_name_is_looked_for_in_old_snapshots_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "MAX_USERS", 8)
    full = remembering({f"u{number}": LastCommit(number, 3, 30) for number in range(8)})
    table = Snapshots(
        snapshot(2, "job", 4, digest="four"),
        snapshot(3, "job", 5),
        snapshot(4, "job", 8, "COMPACT"),
        snapshot(5, properties=full),
    )
    assert asked(table, Identity("job", 5)) == Replay(3)
    assert asked(table, Identity("job", 4, "four")) == Replay(2)
    assert asked(table, Identity("job", 6)) is None
    history = CommitHistory(table.load, Identity("new", 0), "/wh/t")
    assert history.replay(table.latest) is None
    table.loaded.clear()
    table.snapshots[6] = snapshot(6, "x", 1, properties=full)
    assert history.replay(table.snapshots[6]) is None
    assert table.loaded == [5]
    table.snapshots[7] = snapshot(7, "new", 0, properties=full)
    assert history.replay(table.snapshots[7]) == Replay(7)


# In commits


def test_a_repeated_commit_is_in_once(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = committer(paths)
    assert table.append([written(data_file("a"))], Identity.of("job", 5, digest="five")).committed
    table.append([written(data_file("b"))], Identity.of("other", 5, digest="b"))
    assert table.append([written(data_file("c"))], Identity.of("job", 7, digest="seven")).committed
    before = metadata_files(paths)
    for number, digest, snapshot_id in ((5, "five", 1), (7, "seven", 3), (7, None, 3)):
        again = table.append([written(data_file("x"))], Identity.of("job", number, digest=digest))
        assert (again.committed, again.snapshot_id, again.files) == (False, snapshot_id, 0)
    for number, digest in ((5, "six"), (7, "six"), (6, None), (5, None), (0, "five")):
        with pytest.raises(InvalidError, match=f"commit {number} of the user 'job'"):
            table.append([written(data_file("x"))], Identity.of("job", number, digest=digest))
        reported = table.append([written()], Identity.of("job", number, digest=digest, replay=True))
        assert not reported.committed
    assert metadata_files(paths) == before == named_metadata_files(table)
    assert live_names(table) == ["a", "b", "c"]


def test_an_overwrite_is_judged_as_well(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    table.overwrite(None, [written(data_file("a"))], Identity.of("job", 0, digest="zero"))
    table.append([written(data_file("b"))])
    assert not table.overwrite(None, [written()], Identity.of("job", 0, digest="zero")).committed
    with pytest.raises(InvalidError, match="commit 0"):
        table.overwrite(None, [written()], Identity.of("job", 0, digest="other"))
    assert live_names(table) == ["a", "b"]


@pytest.mark.parametrize("same", [True, False])
def test_somebody_commits_the_same_number_between_the_look_and_the_publish(
    tmp_path: Path, same: bool
) -> None:
    paths = make_table(tmp_path)
    other, file_io = committer(paths), FaultyFileIO(IO)
    table = committer(paths, file_io)
    digest = "a" if same else "b"
    file_io.run_before(
        "publish",
        lambda: other.append([written(data_file("o"))], Identity.of("job", 0, digest=digest)),
        "snapshot-1",
    )
    if same:
        assert not table.append(
            [written(data_file("m"))], Identity.of("job", 0, digest="a")
        ).committed
    else:
        with pytest.raises(InvalidError, match="commit 0 of the user 'job'"):
            table.append([written(data_file("m"))], Identity.of("job", 0, digest="a"))
    assert live_names(table) == ["o"]
    assert metadata_files(paths) == named_metadata_files(table)


class Oracle:
    """Every commit that was ever made, by user and number: what a replay must be held against."""

    def __init__(self) -> None:
        self.made: dict[str, dict[int, str | None]] = {}

    def expected(self, user: str, number: int, digest: str | None, known: bool) -> str:
        made: Mapping[int, str | None] = self.made.get(user, {})
        if number > max(made, default=-1):
            return "new"
        if known:
            return "replay"
        if number == max(made):
            differ = None not in (digest, made[number]) and digest != made[number]
            return "collision" if differ else "replay"
        proven = digest is not None and made.get(number) == digest
        return "replay" if proven else "collision"


def test_any_history_is_judged_by_what_was_made(tmp_path: Path, rng: random.Random) -> None:
    """Commits, replays, lost places and shared users at random: one that is new is in, one that was made is not in
    twice, and nothing is dropped without an error.
    """
    table: Committer = committer(make_table(tmp_path))
    oracle = Oracle()
    names = []
    for number in range(300):
        user, identifier = rng.choice("uvw"), rng.randrange(8)
        if rng.random() < 0.3:
            identifier = max(oracle.made.get(user, {0: None})) + 1
        digest = rng.choice([None, "a", "b"])
        known = rng.random() < 0.1
        expected = oracle.expected(user, identifier, digest, known)
        name = f"f{number}"
        try:
            result = table.append(
                [written(data_file(name))],
                Identity.of(user, identifier, digest=digest, replay=known),
            )
        except InvalidError:
            found = "collision"
        else:
            found = "new" if result.committed else "replay"
        assert found == expected, (user, identifier, digest, oracle.made)
        if found == "new":
            oracle.made.setdefault(user, {})[identifier] = digest
            names.append(name)
    assert live_names(table) == sorted(names)
