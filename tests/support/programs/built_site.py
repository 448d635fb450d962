"""The site of docs/, as `make docs` builds it."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.faults.patience import PATIENCE_SECONDS

ROOT: Final = Path(__file__).resolve().parent.parent.parent.parent


def built_site(folder: Path) -> Path:
    """Below `folder`, where the first process that asks builds it. A warning of the build is an error."""
    site = folder / "site"
    with (folder / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not site.exists():
            _build(folder / "unfinished-site").rename(site)
    return site


def _build(site: Path) -> Path:
    ran = subprocess.run(
        [sys.executable, *_command(), "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # a notice of the theme's makers
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    return site


def _command() -> list[str]:
    """That of the Makefile."""
    line = re.search(
        r"^\t@.*\$\(VENV\) (-m mkdocs build .*)$", (ROOT / "Makefile").read_text("utf-8"), re.M
    )
    assert line is not None
    return line[1].split()
