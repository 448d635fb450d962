"""The wheel, built from this checkout, and virtual environments that do not see the checkout.

An environment takes third-party packages from that of the tests through a .pth file, which does not bring the checkout
along: that is checked. In: folders that are there or can be made. Raises AssertionError with what a command printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.faults.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent.parent


def succeed(answer: subprocess.CompletedProcess[str]) -> str:
    assert answer.returncode == 0, answer.stdout[-2000:] + answer.stderr[-6000:]
    return answer.stdout


def built_wheel(folder: Path) -> Path:
    """Built into a folder."""
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment_without_checkout(folder: Path, wheel: Path | None = None) -> Path:
    """A new virtual environment that sees the installed third-party packages, and has the wheel; its python."""
    _run(sys.executable, "-m", "venv", "--without-pip", folder)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    (site_packages / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin/python"
    found = _answer(python, "-c", "import pyarrow, widetable", cwd=folder)
    assert "No module named 'widetable'" in found.stderr, "the checkout is in sight"
    if wheel is not None:
        install = ("install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel)
        _run(sys.executable, "-m", "pip", "--python", python, *install)
    return python


def _run(*command: str | Path) -> None:
    succeed(_answer(*command, cwd=Path(sys.prefix)))


def _answer(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
