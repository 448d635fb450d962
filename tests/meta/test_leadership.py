"""What the leader does for all in a process of its own: what fails there is said, and it ends with the service."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.widetable.cli.test_meta import fill
from widetable.connector import ServiceLease
from widetable.storage.local import LocalFileIO
from widetable_meta.leadership import Leadership

URL = "http://127.0.0.1:1"


def leading(root: Path, warehouse: str) -> Leadership:
    return Leadership(
        ServiceLease(LocalFileIO(), str(root), URL), wt.Catalog(root).topology(), warehouse, URL
    )


def test_tables_are_made_in_another_process(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    leading(tmp_path, str(warehouse))._rebuild()
    assert len(wt.Catalog(tmp_path).list_tables("__meta")) == 8


def test_what_fails_there_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no warehouse")
    with caplog.at_level(logging.WARNING, "widetable"):
        leading(tmp_path, str(tmp_path / "file"))._rebuild()
    (said,) = caplog.messages
    assert "the tables of __meta were not brought up to date" in said
    assert str(tmp_path / "file") in said


def test_it_ends_with_the_service(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    leadership = leading(tmp_path, str(fill(tmp_path)))
    began = threading.Thread(target=leadership._rebuild)
    with caplog.at_level(logging.WARNING, "widetable"):
        began.start()
        time.sleep(0.2)
        leadership.end(PATIENCE_SECONDS)
        began.join(PATIENCE_SECONDS)
    assert not began.is_alive()
    assert not caplog.messages, "nobody asked for what was given up"
