"""Arguments of a job that are of the wrong type or range are refused by their names, before a server is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from widetable_cdc import Sync


def job(folder: Path) -> Sync:
    return Sync(
        {
            "name": "shop",
            "tables": ["public.*"],
            "source": {"dsn": "host=nowhere.invalid"},
            "target": {"warehouse": str(folder), "database": "shop"},
        }
    )


@pytest.mark.parametrize("config", [None, 5, b"shop.toml", ["shop.toml"]])
def test_a_configuration_of_another_type(config: Any) -> None:
    with pytest.raises(wt.InvalidError, match="config"):
        Sync(config)


CALLS: dict[str, tuple[Callable[[Sync], Any], str]] = {
    "a flag for until": (lambda job: job.run(True), "until"),
    "a negative LSN": (lambda job: job.run(-1), "until"),
    "another word": (lambda job: job.run("soon"), "until"),
    "a number for stop": (lambda job: job.run(None, 5), "stop"),  # type: ignore[arg-type]
    "pause a number": (lambda job: job.pause(5), "table"),  # type: ignore[arg-type]
    "resume nothing": (lambda job: job.resume(None), "table"),  # type: ignore[arg-type]
    "recopy as text": (lambda job: job.resume("public.t", recopy="yes"), "recopy"),  # type: ignore[arg-type]
    "verify a number": (lambda job: job.verify(5), "table"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", CALLS)
def test_an_argument_is_named(tmp_path: Path, what: str) -> None:
    call, name = CALLS[what]
    with pytest.raises(wt.InvalidError, match=name):
        call(job(tmp_path))


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(wt.StorageError, match=r"nowhere\.invalid"):
        job(tmp_path).run("copied")
