"""A writer that was overtaken, and commits: overtaken_writer.py PATH MESSAGES CALL

MESSAGES: a pickle of its commit messages. CALL: which of its writes it does not live to see, -1 for none.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import widetable as wt
from tests.kill.killing_file_io import DiesAtWrite
from widetable.storage.local import LocalFileIO

BY = ("late", 1)


def main() -> None:
    path, messages, call = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    files = DiesAtWrite(call) if call >= 0 else LocalFileIO(fsync=False)
    table = wt.Table.open(path, file_io=files)
    table.commit_append(pickle.loads(messages.read_bytes()), *BY, digest="what it is made of")
