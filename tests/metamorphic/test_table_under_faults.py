"""A table on a storage that fails: every commit is in or out as a whole, as reported, and repeated it counts once."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.models.model import Model
from tests.support.models.random_table import (
    TableSpec,
    check_levels,
    data_of,
    has_effect,
    make,
    rows_of,
    stamped_commits,
    table_specs,
    texts,
)
from tests.support.models.strategies import Commit
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.storage.local import LocalFileIO

USER = "writer"
IO = LocalFileIO(fsync=False)
# A commit, or a compaction that is full or not.
Step = Commit | bool
# Where a failure is worth more than one at random: around the points where things become true.
POINTS: Final = (
    ("publish", "snapshot-"),
    ("publish", "snapshot-"),
    ("publish", "lease"),
    ("replace", "LATEST"),
    ("read", "snapshot-"),
    ("open_output", "data-"),
    ("write_new", "manifest-"),
    ("delete", ""),
)
Guard = Callable[[], contextlib.AbstractContextManager[object]]


@st.composite
def steps_of_a_table(draw: st.DrawFn) -> tuple[TableSpec, list[Step]]:
    spec = draw(table_specs())
    commit = stamped_commits(spec.schema, spec.keys)
    return spec, draw(st.lists(commit | commit | commit | st.booleans(), min_size=1, max_size=6))


class Run:
    """Does steps on `table` while `trouble` lasts, and holds what is on the disk against the model.

    After every step the table is looked at with a storage that works, past all caches.
    """

    def __init__(
        self, table: wt.Table, trouble: Guard, while_reading: Guard = contextlib.nullcontext
    ) -> None:
        self.table, self.trouble, self.while_reading = table, trouble, while_reading
        self.model = Model(table.schema)
        self.identifier = 0
        self.errors: list[wt.StorageError] = []

    def do(self, step: Step) -> None:
        before = self._files()
        if isinstance(step, bool):
            self._compact(full=step)
        else:
            self._write(step)
        with contextlib.suppress(wt.StorageError), self.while_reading():
            assert rows_of(self.table) == texts(self.model.rows())
        self._check(before)

    def _write(self, commit: Commit) -> None:
        self.identifier += 1
        data = data_of(self.model.schema, commit)
        reported = None
        try:
            with self.trouble():
                reported = self.table.write(data, USER, self.identifier).committed
        except wt.StorageError as error:
            self.errors.append(error)
        clean = self._clean()
        is_in = clean.find_commit(USER, self.identifier) is not None
        if reported is None:
            assert not is_in or "same user and identifier" in str(self.errors[-1])
        else:
            assert reported is is_in
        after = self.model.copy()
        after.write(commit.records)
        assert rows_of(clean) == texts((after if is_in else self.model).rows())
        again = clean.write(data, USER, self.identifier).committed
        assert again is (has_effect(self.model, commit.records) and not is_in)
        self.model = after

    def _compact(self, *, full: bool) -> None:
        try:
            with self.trouble():
                self.table.compact(full=full)
        except wt.StorageError as error:
            self.errors.append(error)

    def _check(self, before: set[str]) -> None:
        """The same rows; and of what failed, data files are left at most."""
        clean = self._clean()
        assert rows_of(clean) == texts(self.model.rows())
        check_levels(clean.path, clean.schema)
        assert not [name for name in self._files() - before if name.endswith(".tmp")]

    def _clean(self) -> wt.Table:
        MANIFEST_CACHE.clear()
        return wt.Table.open(self.table.path)

    def _files(self) -> set[str]:
        root = Path(self.table.path)
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@settings(max_examples=settings().max_examples)
@given(
    drawn=steps_of_a_table(),
    seed=st.integers(0, 2**32),
    rate=st.sampled_from([0.0, 0.01, 0.03, 0.1, 0.5]),
    points=st.lists(
        st.tuples(st.sampled_from(POINTS), st.sampled_from(Fault), st.sampled_from([0, 0, 1, 2])),
        min_size=3,
        max_size=6,
    ),
)
def test_commits_are_in_or_out_as_reported(
    drawn: tuple[TableSpec, list[Step]],
    seed: int,
    rate: float,
    points: list[tuple[tuple[str, str], Fault, int]],
) -> None:
    """Each step has failures at random, and one of the points while there are any; reads have those at random."""
    spec, steps = drawn
    left = iter(points)
    file_io = FaultyFileIO(IO, seed=seed, rate=rate)
    file_io.rate = 0.0

    @contextlib.contextmanager
    def while_reading() -> Iterator[None]:
        file_io.rate = rate
        try:
            yield
        finally:
            file_io.heal()

    @contextlib.contextmanager
    def trouble() -> Iterator[None]:
        for (operation, name), fault, skip in islice(left, 1):
            appears_whole = operation in ("publish", "replace") and fault is Fault.TORN
            file_io.fail(operation, Fault.BEFORE if appears_whole else fault, name, skip=skip)
        with while_reading():
            yield

    with TemporaryDirectory() as folder:
        run = Run(wt.Table.open(make(folder, spec).path, file_io=file_io), trouble, while_reading)
        for step in steps:
            run.do(step)


@contextlib.contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Like a disk that is full: a file is cut where it would grow past the size, and the write fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@settings(max_examples=settings().max_examples)
@given(drawn=steps_of_a_table(), size_bytes=st.integers(0, 6000))
def test_a_full_disk_changes_nothing(drawn: tuple[TableSpec, list[Step]], size_bytes: int) -> None:
    spec, steps = drawn
    with TemporaryDirectory() as folder:
        _do(steps, Run(make(folder, spec), contextlib.nullcontext))  # compiles what it needs
    with TemporaryDirectory() as folder:
        _do(steps, Run(make(folder, spec), lambda: files_of_at_most(size_bytes)))


def _do(steps: Sequence[Step], run: Run) -> None:
    for step in steps:
        run.do(step)


@pytest.mark.parametrize("size_bytes", [0, 100, 1000])
def test_a_disk_without_room_for_a_data_file_leaves_no_file(
    tmp_path: Path, size_bytes: int
) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", pa.schema([("k", pa.int64()), ("v", pa.string())]), primary_key=["k"]
    )
    data = pa.table({"k": list(range(1000)), "v": [f"{n * n:x}" for n in range(1000)]})
    table.write(data)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    with pytest.raises(wt.StorageError, match="Make room"), files_of_at_most(size_bytes):
        table.write(data)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    assert len(table.snapshots()) == 1
