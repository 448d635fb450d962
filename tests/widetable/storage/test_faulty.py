"""The failing storage of the tests: it fails where it shall, and not elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.faults.faults import Fault, FaultyFileIO
from widetable.errors import StorageError
from widetable.storage.local import LocalFileIO


def faulty(seed: int = 0, rate: float = 0.0) -> FaultyFileIO:
    return FaultyFileIO(LocalFileIO(fsync=False), seed=seed, rate=rate)


@pytest.mark.parametrize(
    ("fault", "left"),
    [(Fault.BEFORE, None), (Fault.AFTER, b"0123"), (Fault.TORN, b"01"), (Fault.FULL, b"01")],
)
def test_what_each_fault_leaves_of_a_new_file(
    tmp_path: Path, fault: Fault, left: bytes | None
) -> None:
    path = tmp_path / "a"
    file_io = faulty()
    file_io.fail("write_new", fault)
    with pytest.raises(StorageError):
        file_io.write_new(str(path), b"0123")
    assert (path.read_bytes() if path.exists() else None) == left


@pytest.mark.parametrize("fault", Fault)
def test_a_published_file_appears_whole_or_not(tmp_path: Path, fault: Fault) -> None:
    path = tmp_path / "a"
    file_io = faulty()
    file_io.fail("publish", fault)
    with pytest.raises(StorageError, match=f"injected {fault.value}"):
        file_io.publish(str(path), b"0123")
    assert (path.read_bytes() if path.exists() else None) == (
        b"0123" if fault is Fault.AFTER else None
    )


def test_points_have_a_name_a_start_and_an_end(tmp_path: Path) -> None:
    file_io = faulty()
    file_io.fail("exists", Fault.BEFORE, "/b", skip=1, times=2)
    outcomes = []
    for name in ("a", "b", "a", "b", "b", "b"):
        try:
            file_io.exists(str(tmp_path / name))
            outcomes.append("fine")
        except StorageError:
            outcomes.append("fails")
    assert outcomes == ["fine", "fine", "fine", "fails", "fails", "fine"]
    assert (file_io.count("exists"), file_io.count("exists", "/b")) == (6, 4)


def test_the_seed_decides_and_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def outcomes(seed: int) -> list[bool]:
        file_io, failed = faulty(seed, 0.5), []
        for _ in range(50):
            try:
                file_io.exists(str(tmp_path))
                failed.append(False)
            except StorageError:
                failed.append(True)
        return failed

    assert outcomes(1) == outcomes(1) != outcomes(2)
    assert 5 < sum(outcomes(1)) < 45
    assert "seed 1" in capsys.readouterr().out


def test_healing_ends_all_faults(tmp_path: Path) -> None:
    file_io = faulty(3, 1.0)
    file_io.fail("exists", Fault.BEFORE, times=99)
    file_io.heal()
    assert file_io.exists(str(tmp_path))
