"""The pages of the documentation and their blocks of code.

A block is fenced and names its language; indented ones have none, and are refused. A `text` block directly below
another is what that one prints: `…` in it stands for a part of a line that differs from run to run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent.parent
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_FENCE: Final = re.compile(r"^```(?P<language>.*)$")


@dataclass(frozen=True)
class Block:
    """line: of the fence, from 1. printed: what stands below as its output; None without it."""

    page: str
    line: int
    language: str
    text: str
    printed: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(text: str, page: str) -> list[Block]:
    """In their order, outputs among those that they are of. An indented block has the language `indented`."""
    found: list[Block] = []
    lines = text.splitlines()
    at, end_of_last = 0, -1
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            if _begins_indented(lines, at):
                found.append(Block(page, at + 1, "indented", lines[at]))
            at += 1
            continue
        end = next(i for i in range(at + 1, len(lines)) if lines[i] == "```")
        body = "\n".join(lines[at + 1 : end]) + "\n"
        is_below = found and end_of_last >= 0 and not "".join(lines[end_of_last + 1 : at]).strip()
        if fence["language"] == "text" and is_below and found[-1].language != "text":
            last = found.pop()
            found.append(Block(page, last.line, last.language, last.text, body))
        else:
            found.append(Block(page, at + 1, fence["language"], body))
        at, end_of_last = end + 1, end
    return found


def _begins_indented(lines: list[str], at: int) -> bool:
    """Four blanks behind an empty line are a block, where no list goes on; and a fence that does not begin its line."""
    if re.match(r"\s+```", lines[at]):
        return True
    above = [line for line in lines[:at] if line.strip()]
    return (
        lines[at].startswith("    ")
        and at > 0
        and not lines[at - 1].strip()
        and not re.match(r"\s*([-*]|\d+\.) |    ", above[-1] if above else "")
    )


def blocks(page: Path) -> list[Block]:
    return blocks_of(page.read_text(encoding="utf-8"), name_of(page))


def code(page: str, language: str = "python") -> list[str]:
    """The texts of a page's blocks in a language."""
    return [block.text for block in blocks(ROOT / page) if block.language == language]
