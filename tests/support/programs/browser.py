"""A real browser without a window, where there is one."""

from __future__ import annotations

import shutil
import subprocess
from typing import Final

import pytest

from tests.support.faults.patience import PATIENCE_SECONDS

BROWSER: Final = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
NEEDS_BROWSER: Final = pytest.mark.skipif(
    BROWSER is None, reason="no chromium: the page is not drawn"
)


def browsed(*words: str) -> str:
    """What it prints. words: its options, and the URL."""
    assert BROWSER is not None
    always = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    ran = subprocess.run(
        [BROWSER, *always, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    return ran.stdout
