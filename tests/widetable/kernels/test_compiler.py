"""Where compiled kernels are kept, and what happens where they cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.faults.unprivileged import read_only, without_privileges
from widetable.kernels import compiler
from widetable.kernels.compiler import COMPILER

ROOT = Path(__file__).resolve().parents[3]

# A module of its own with a kernel, so that nobody has compiled it; argv: what to do before it is called.
_PROGRAM = """
import logging, resource, sys
logging.basicConfig(format="%(message)s")
import numpy as np
from a_kernel import count_ones, count_twos
import numba
numba.config.CACHE_DIR = ""
exec(sys.argv[1])
assert count_ones.compile(np.ones(7, np.int64)) == 7
assert count_twos.compile(np.ones(7, np.int64)) == 0
assert count_ones.compile(np.ones(7, np.int32)) == 7
"""
_KERNELS = """
from widetable.kernels.jit import kernel
@kernel
def count_ones(numbers):
    found = 0
    for number in numbers:
        found += number == 1
    return found
@kernel
def count_twos(numbers):
    found = 0
    for number in numbers:
        found += number == 2
    return found
"""
_NOWHERE = "numba.core.caching.CacheImpl._locator_classes = []"
_OWN_ONLY = "numba.core.caching.CacheImpl._locator_classes = numba.core.caching.CacheImpl._locator_classes[:1]"
_FULL = "resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))"


@pytest.fixture
def both_tiers() -> None:
    """These tests compile."""


def said_by(folder: Path, before: str, begin: Callable[[], None] | None = None) -> str:
    """What a process says that compiles two kernels. Temporary files: folder/temporary. begin: called in it first."""
    if not (folder / "a_kernel.py").exists():  # one that is written anew is compiled anew
        (folder / "a_kernel.py").write_text(_KERNELS)
    (folder / "temporary").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", "import numba.core.caching\n" + _PROGRAM, before],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
            "TMPDIR": str(folder / "temporary"),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        preexec_fn=begin,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def kept_below(folder: Path) -> int:
    return len(list(folder.rglob("*.nbc")))


def test_kernels_are_kept_beside_their_source(tmp_path: Path) -> None:
    assert said_by(tmp_path, "") == ""
    assert kept_below(tmp_path / "__pycache__") == 3


def test_they_are_kept_among_temporary_files_where_numba_has_no_place(tmp_path: Path) -> None:
    for _ in range(2):
        assert said_by(tmp_path, _OWN_ONLY) == ""
        directory = tmp_path / f"temporary/widetable-kernels-{os.getuid()}"
        assert kept_below(directory) == 3
        assert directory.stat().st_mode & 0o777 == 0o700


_TOLD = """
import atexit
from widetable.kernels.compiler import COMPILER
numba.config.CACHE_DIR = {directory!r}
misses = lambda: sum(sum(made.stats.cache_misses.values()) for made in COMPILER.dispatchers)
atexit.register(lambda: print("compiled", misses(), file=sys.stderr))
"""


@pytest.mark.slow
def test_kernels_of_an_image_are_loaded_where_they_may_only_be_read(tmp_path: Path) -> None:
    """Compiled by root when the image was built, read by another user of a container whose disk is read-only."""
    user, kernels = without_privileges(), tmp_path / "kernels"
    told = _TOLD.format(directory=str(kernels))
    assert said_by(tmp_path, told) == "compiled 3\n"
    assert kept_below(kernels) == 3
    with read_only(kernels):
        assert said_by(tmp_path, told, user) == "compiled 0\n"
    for file in kernels.rglob("*twos*.nb?"):
        file.unlink()
    with read_only(kernels):
        assert said_by(tmp_path, told, user) == "compiled 1\n"
    assert kept_below(kernels) == 2
    assert kept_below(tmp_path) == 2


@pytest.mark.slow
def test_a_directory_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    said_by(tmp_path, _OWN_ONLY)
    directory = tmp_path / f"temporary/widetable-kernels-{os.getuid()}"
    for file in directory.rglob("*.nb?"):
        file.unlink()
    directory.chmod(0o770)
    said = said_by(tmp_path, _OWN_ONLY)
    assert kept_below(directory) == 0
    assert said.count("NUMBA_CACHE_DIR") == 1


@pytest.mark.parametrize("why", [_NOWHERE, _FULL])
def test_where_nothing_can_be_kept_they_are_compiled_and_it_is_said_once(
    tmp_path: Path, why: str
) -> None:
    said = said_by(tmp_path, why)
    assert kept_below(tmp_path) == 0
    assert said.count("NUMBA_CACHE_DIR") == 1


def test_a_link_in_its_place_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"widetable-kernels-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    assert compiler._own_directory() == ""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[Path, bytes]]:
    """A folder with kernels that are kept, and what is kept."""
    folder = tmp_path_factory.mktemp("compiled")
    said_by(folder, "")
    return folder, {file: file.read_bytes() for file in folder.rglob("*.nb?")}


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [0, 0.5, 0.99])
def test_where_what_was_kept_is_cut_short_they_are_compiled_and_it_is_said_once(
    compiled: tuple[Path, dict[Path, bytes]], ending: str, left: float
) -> None:
    folder, kept = compiled
    for file, content in kept.items():
        file.write_bytes(content)
    cut = [file for file in kept if file.suffix == f".{ending}"]
    for file in cut:
        os.truncate(file, int(left * file.stat().st_size))
    said = said_by(folder, "")
    assert said.count(f"delete {folder / '__pycache__'}") == 1
    assert len(cut) in (2, 3)


def test_a_fault_that_is_not_the_caches_comes_as_it_is_and_blames_nobody(
    tmp_path: Path,
) -> None:
    said = said_by(
        tmp_path,
        "try: count_ones.compile(object())\nexcept numba.errors.TypingError: pass\n"
        "else: raise AssertionError('compiled')",
    )
    assert "NUMBA_CACHE_DIR" not in said


def allocating(keys: np.ndarray) -> int:
    return len(np.empty(len(keys)))


def test_kernels_count_no_references_so_they_cannot_allocate() -> None:
    """A release of numba that has lost the option must not go unseen: comparisons would be nine times slower."""
    numba = pytest.importorskip("numba")
    keys = np.arange(9)
    assert numba.njit(allocating)(keys) == 9
    with pytest.raises(numba.core.errors.TypingError, match="empty"):
        COMPILER.compile(allocating)(keys)
