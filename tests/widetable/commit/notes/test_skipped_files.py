"""Small files that cannot be read are named once, after another look."""

from __future__ import annotations

import pytest

from widetable.commit.notes import skipped_files
from widetable.commit.notes.skipped_files import log_skipped, readable
from widetable.errors import DamagedError, NotFoundError


def damage(name: str) -> DamagedError:
    return DamagedError(name, found="nothing", expected="something", action="Delete it.")


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skipped_files, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(skipped_files, "_named", set())


def test_each_file_is_named_once_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b", "a", "b"):
        log_skipped(damage(name))
    assert [record.getMessage() for record in caplog.records] == [
        f"WT-W301 skipped: {damage(name)}" for name in ("a", "b")
    ]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skipped_files, "_MAX_NAMED", 10)
    for number in range(95):
        log_skipped(damage(str(number)))
    assert len(skipped_files._named) <= 10


def test_a_file_that_is_being_written_is_read_when_it_is_whole() -> None:
    looks = {"whole": 0, "slow": 2, "torn": 99, "gone": 0, "nothing": 0}

    def read(name: str) -> str | None:
        if looks[name] > 0:
            looks[name] -= 1
            raise damage(name)
        if name == "gone":
            raise NotFoundError(name, found="-", expected="-", action="-")
        return None if name == "nothing" else name.upper()

    found, damaged = readable(["slow", "torn", "gone", "whole", "nothing"], read)
    assert list(found.items()) == [("slow", "SLOW"), ("whole", "WHOLE")]
    assert [each.subject for each in damaged] == ["torn"]
