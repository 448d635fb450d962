"""A file of any kind cut short or with a wrong bit: right answers, or a DamagedError that names the file. Never wrong
rows, another error or a wait without end; and nobody deletes what is needed. With the right bytes back, all is there.

Two kinds have no checksum: of snapshots and schemas a wrong bit inside a value may be another right value. What such a
bit changes is counted, not refused (docs/proof.md).
WIDETABLE_DAMAGES: how many cases per kind (default 2).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pytest

import widetable as wt
from tests.damaged_files.lived_in import KINDS, Lived, batch
from tests.support.programs.tallies import Note
from widetable.commit.notes import skipped_files as passed_over
from widetable.commit.snapshots import snapshot_store
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE

DAMAGES = int(os.environ.get("WIDETABLE_DAMAGES", "2"))
# JSON without a checksum: a wrong bit may leave another right file.
UNCHECKED = ("snapshot", "schema", "tag")
# Nobody is refused anything for their sake.
NOTES = ("consumer", "lease", "service note", "lookup cache")
Act = Callable[[wt.Table], object]
ACTS: Mapping[str, Act] = {
    "write": lambda table: table.write(batch(9), "stream", 9),
    "compact": lambda table: table.compact(full=True),
    "maintain": lambda table: table.maintain(once=True),
    "expire": lambda table: table.expire_snapshots(num_retained_min=2, time_retained_millis=0),
    "clean": lambda table: table.remove_orphan_files(older_than_millis=0),
    "audit": lambda table: table.audit(),
}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WIDETABLE_CACHE_DIR", "")
        yield Lived.made(tmp_path_factory.mktemp("lived"))


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def flipped(data: bytes, rng: random.Random) -> bytes:
    copy = bytearray(data)
    copy[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(copy)


class Case:
    """One damage to one copy. counts: answers that were right, refused by name, or wrong where nothing can notice."""

    def __init__(self, lived: Lived, kind: str, rng: random.Random) -> None:
        self._lived, self._kind = lived, kind
        self._path = lived.copied().path
        self._rng = rng
        self._file = rng.choice(lived.files(kind))
        self._whole = self._file.read_bytes()
        self._how = rng.choice((cut, flipped))
        self._done = ""
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def run(self, act: str, after: Mapping[str, object]) -> None:
        """after: what readers say once the act is done on a table that is whole."""
        self._done = act
        spoiled = self._how(self._whole, self._rng)
        self._file.write_bytes(spoiled)
        self._ask_all({}, "damaged")
        self._try(act, ACTS[act])
        self._ask_all(after, "damaged, after the act")
        if self._file.exists():
            self._file.write_bytes(self._whole)
        self._ask_all(after, "mended", may_refuse=False)
        if self.problems:
            at = [i for i, (a, b) in enumerate(zip(spoiled, self._whole, strict=False)) if a != b]
            what = f"{self._how.__name__} at {at or len(spoiled)} of {len(self._whole)}"
            self.problems.append(f"({self._file}, {what}, act {act})")

    def _ask_all(self, after: Mapping[str, object], when: str, *, may_refuse: bool = True) -> None:
        """after: the answers since the act; none before it."""
        MANIFEST_CACHE.clear()
        for name, ask in self._lived.questions.items():
            if self._is_open(name, when):
                continue
            is_expired = bool(after) and after[name] is None
            found = self._try(f"{name}, {when}", ask, is_expired=is_expired, may_refuse=may_refuse)
            right = (self._lived.answers[name], after.get(name))
            if found is None or found in right or self._is_halfway(name, found, right):
                self.counts["right"] += found is not None
            elif self._is_unchecked:
                self.counts["unnoticed"] += 1
            else:
                self.problems.append(f"{name}, {when}: {str(found)[:300]} is not {right}"[:900])

    def _is_halfway(self, name: str, found: object, right: tuple[object, object]) -> bool:
        """The commit of a write is in; the compaction behind it met the damage, and waits for the next writer."""
        if name != "inspect" or self._done != "write" or right[1] is None:
            return False
        return int(str(right[0])) < int(str(found)) < int(str(right[1]))

    def _is_open(self, name: str, when: str) -> bool:
        """A tag that cannot be read is not listed, and keeps nothing from expiry meanwhile."""
        return self._kind == "tag" and (name == "tags" or (name == "tag" and when == "mended"))

    @property
    def _is_unchecked(self) -> bool:
        return self._kind in UNCHECKED and self._how is flipped

    def _try(
        self, name: str, ask: Act, *, is_expired: bool = False, may_refuse: bool = True
    ) -> object:
        """What it answers; None when it refuses, which is judged."""
        self.counts["asked"] += 1
        try:
            return ask(wt.Table.open(self._path))
        except wt.WidetableError as error:
            self.counts["refused"] += 1
            is_named = isinstance(error, wt.DamagedError) and self._file.name in str(error)
            is_allowed = is_named and may_refuse and self._kind not in NOTES
            is_gone = is_expired and isinstance(error, wt.NotFoundError)
            if not (is_allowed or is_gone or self._is_unchecked):
                self.problems.append(f"{name}: {error!r}")
        except Exception as error:  # noqa: BLE001 -- it is what is looked for
            self.problems.append(f"{name}: raw {error!r}")
        return None


def answers_after(lived: Lived, act: str) -> dict[str, object]:
    """On a copy that is whole; None: it has expired."""
    table = lived.copied()
    ACTS[act](table)
    found: dict[str, object] = {}
    for name, ask in lived.questions.items():
        try:
            found[name] = ask(table)
        except wt.NotFoundError:
            found[name] = None
    return found


@pytest.fixture(scope="module")
def after(lived: Lived) -> dict[str, dict[str, object]]:
    return {act: answers_after(lived, act) for act in ACTS}


@pytest.mark.parametrize("kind", KINDS)
def test_readers_are_right_or_shown_the_file(
    lived: Lived,
    after: dict[str, dict[str, object]],
    kind: str,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    tally: Note,
) -> None:
    for module in (passed_over, snapshot_store):  # nobody commits meanwhile
        monkeypatch.setattr(module, "_PAUSE_SECONDS", 0)
    problems: list[str] = []
    counts: Counter[str] = Counter()
    for _ in range(DAMAGES):
        case = Case(lived, kind, rng)
        act = rng.choice(list(ACTS))
        case.run(act, after[act])
        counts += case.counts + Counter(cases=1)
        problems += case.problems
    tally(**counts)
    assert not problems, "\n".join(problems)
    assert counts["asked"]
