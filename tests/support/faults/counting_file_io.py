"""A FileIO that notes what it opens, so that tests can say how much a scan touches."""

from __future__ import annotations

import pyarrow as pa

from widetable.storage.local import LocalFileIO


class CountingFileIO(LocalFileIO):
    """opened: paths of data files, in the order in which they were opened; read_files: of small files."""

    def __init__(self) -> None:
        super().__init__(fsync=False)
        self.opened: list[str] = []
        self.read_files: list[str] = []

    def open_input(self, path: str) -> pa.NativeFile:
        self.opened.append(path)
        return super().open_input(path)

    def read(self, path: str) -> bytes:
        self.read_files.append(path)
        return super().read(path)
