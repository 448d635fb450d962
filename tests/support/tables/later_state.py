"""What others make of a folder, done once and then played into copies of it: for tests that let it happen at each of
many moments.

A played change is one of another process: nothing of it is in the memory of this one.
"""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LaterState:
    """The files that are written, by their path in the folder, and those that are deleted."""

    written: dict[str, bytes]
    deleted: tuple[str, ...]

    @classmethod
    def made(cls, before: Path, change: Callable[[Path], object], scratch: Path) -> LaterState:
        """Let the change happen in a copy at `scratch`, and take what is different there."""
        after = shutil.copytree(before, scratch)
        change(after)
        old, new = _files(before), _files(after)
        changed = [
            name
            for name in new
            if name not in old or not filecmp.cmp(before / name, after / name, shallow=False)
        ]
        written = {name: (after / name).read_bytes() for name in changed}
        assert written, "the change writes nothing"
        return cls(written, tuple(sorted(old - new)))

    def play(self, folder: Path) -> None:
        """Bring a copy of the folder from the state before to that after the change."""
        for name, content in self.written.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name in self.deleted:
            (folder / name).unlink()


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
