"""Who holds the bytes of a table, as lines for people.

      bytes             1.2 GiB in 40 files
        newest snapshot          1.0 GiB in 10 files
        consumer 'a', from 3 on  0.2 GiB in 30 files

Lines keep the order of the input: each counts the files that no line above it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from widetable.cli.output.inspection_text import fact_line
from widetable.format.human_units import size_text
from widetable.messages.counted import counted
from widetable.operations.history import table_space
from widetable.operations.history.snapshot_holders import BARRIERS, CONSUMER
from widetable.operations.history.table_space import HeldBytes

_TEXTS: Final = {
    table_space.SNAPSHOT: "newest snapshot, {id}",
    table_space.RETENTION: "older snapshots that the options keep, from {id} on",
    table_space.TAG: "tag {name}, of snapshot {id}",
    table_space.BRANCH: "branch {name}",
    table_space.CHANGELOG: "changelogs that another client keeps for longer",
    table_space.EXPIRY: "snapshots that the next expiry removes, from {id} on",
    table_space.NOBODY: "not in any snapshot: files of active writers, or orphans",
    CONSUMER: "consumer {name}, from snapshot {id} on",
    BARRIERS: "barriers that are kept, from snapshot {id} on",
    "read": "reader {name}, from snapshot {id} on",
    "pin": "lookup join {name}, from snapshot {id} on",
}


def space_lines(
    lines: Sequence[HeldBytes], unknown: str | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (line, style) for the total and each holder. unknown: the error, if the size could not be computed."""
    if unknown is not None:
        yield fact_line("bytes", f"unknown: {unknown}"), "plain"
    elif lines:
        total, files = sum(line.bytes for line in lines), sum(line.files for line in lines)
        yield fact_line("bytes", _size(total, files)), "plain"
        yield from holder_lines(lines)


def holder_lines(lines: Sequence[HeldBytes]) -> Iterator[tuple[str, str]]:
    """Yield (line, style) for each holder."""
    texts = [_holder_text(line) for line in lines]
    width = max(map(len, texts), default=0)
    for text, line in zip(texts, lines, strict=True):
        yield f"    {text:<{width}}  {_size(line.bytes, line.files)}", "plain"


def _holder_text(line: HeldBytes) -> str:
    name = "of an unknown process" if line.name is None else repr(line.name)
    return _TEXTS[line.holder].format(name=name, id=line.snapshot_id)


def _size(size_bytes: int, files: int) -> str:
    return f"{size_text(size_bytes)} in {counted(files, 'file')}"
