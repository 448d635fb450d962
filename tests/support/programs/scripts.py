"""Data-driven tests: a text file of commands and what each must answer.

    # a comment, kept with the case that follows
    command line
    more lines of the command
    ----
    expected answer, up to the next blank line

`REWRITE=1` replaces the expected answers by the present ones: read the difference before you keep it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """comments, command: lines. expected: text without a newline at its end. line: where the case starts, from 1."""

    line: int
    comments: tuple[str, ...]
    command: tuple[str, ...]
    expected: str


def cases(path: Path) -> list[Case]:
    """The cases of a script. Raises ValueError for a paragraph without `----`."""
    found, first = [], 1
    comments: tuple[str, ...] = ()
    for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
        lines = paragraph.strip("\n").split("\n")
        remarks = tuple(line for line in lines if line.startswith("#"))
        rest = [line for line in lines if line and not line.startswith("#")]
        if rest and "----" not in rest:
            raise ValueError(f"{path}:{first}: found no ---- below the command")
        if rest:
            at = rest.index("----")
            found.append(
                Case(first, comments + remarks, tuple(rest[:at]), "\n".join(rest[at + 1 :]))
            )
            comments = ()
        else:
            comments += (*remarks, "")
        first += paragraph.count("\n") + 2
    return found


def check_script(path: Path, answer: Callable[[tuple[str, ...]], str]) -> None:
    """Every case's answer is the expected one; with REWRITE=1 the file is written anew instead."""
    known = cases(path)
    assert known, f"{path} holds no case"
    if os.environ.get("REWRITE") == "1":
        path.write_text(
            script_text([replace(c, expected=answer(c.command)) for c in known]), "utf-8"
        )
        return
    wrong = []
    for case in known:
        found = answer(case.command)
        if found != case.expected:
            command = "\n".join(case.command)
            wrong.append(
                f"{path}:{case.line}\n{command}\nexpected:\n{case.expected}\nfound:\n{found}"
            )
    assert not wrong, "\n\n".join(wrong)


def script_text(known: list[Case]) -> str:
    paragraphs = ["\n".join([*c.comments, *c.command, "----", c.expected]) for c in known]
    return "\n\n".join(paragraphs) + "\n"
