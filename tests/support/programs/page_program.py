"""Runs the blocks of a page, one after the other, in one process: Python in one namespace, SQL by its `spark`.

Arguments: a JSON file with a list of [language, text], and the file that gets a JSON list of what each printed. What a
shell prints on standard error is with the rest, and an exit code that is not 0 is a last line. What Python raises ends
the process.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def python(text: str, names: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "page", "exec"), names)  # noqa: S102  # of our own pages
    return out.getvalue()


def bash(text: str, names: dict[str, Any]) -> str:
    command = ["bash", "-u", "-o", "pipefail", "-c", text]
    merged = subprocess.STDOUT
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=merged, text=True, check=False)
    return ran.stdout + (f"[exit code {ran.returncode}]\n" if ran.returncode else "")


def sql(text: str, names: dict[str, Any]) -> str:
    rows = names["spark"].sql(text).collect()
    return "".join(f"{tuple(row)}\n" for row in rows)


RUN: dict[str, Callable[[str, dict[str, Any]], str]] = {"python": python, "bash": bash, "sql": sql}


def main() -> None:
    given, answers = map(Path, sys.argv[1:])
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = [RUN[language](text, names) for language, text in json.loads(given.read_text())]
    answers.write_text(json.dumps(printed))


if __name__ == "__main__":
    main()
