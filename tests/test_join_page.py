"""The example of docs/join-two-streams-without-state.md runs as it stands, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.command_line import run

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/join-two-streams-without-state.md").read_text(encoding="utf-8")
CHANGES = [
    {"customer": 8, "order": 1, "amount": 20.0, "city": None, "_row_kind": "-U"},
    {"customer": 8, "order": 1, "amount": 20.0, "city": "Rome", "_row_kind": "+U"},
]


def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    program = example.replace("/tmp/", f"{tmp_path}/")
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[-4000:]
    assert answer.stdout.splitlines() == ["2", "1", *map(str, CHANGES)]
    (shell,) = re.findall(r"    widetable (join add .*?)\n    widetable", PAGE, re.DOTALL)
    words = shell.replace("\\\n", " ").replace("/tmp/", f"{tmp_path}/").split()
    words[2] += "_again"
    assert run(*words).exit_code == 0
    done = run("join", "run", words[2], "--once", "--quiet")
    assert (done.exit_code, done.stdout) == (0, "snapshots 1 and 2: 2 rows added, 0 removed\n")
