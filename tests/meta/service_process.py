"""Services of `widetable meta serve` as processes, and requests to them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.faults.patience import PATIENCE_SECONDS, wait_for
from widetable_meta import MetaClient

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Service:
    process: subprocess.Popen[str]
    url: str

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, Any]:
        """(status, body of JSON)."""
        answer = requests.request(
            method, f"{self.url}{path}", json=body, params=query, timeout=PATIENCE_SECONDS
        )
        return answer.status_code, answer.json() if answer.content else None

    def got(self, path: str, **query: Any) -> Any:
        """Of a GET that succeeds."""
        status, body = self.ask("GET", path, **query)
        assert status == 200, body
        return body

    def leads(self) -> bool:
        return bool(self.got("/v1/leader")["is_here"])

    def kill(self) -> None:
        """Without a chance to say anything."""
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def terminate(self) -> int:
        """By SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)


def end_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is asked and finds no instance gives up at once."""
    defaults = MetaClient.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "patience_seconds", 0.0)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "widetable", "meta", "serve", *words]


def environment() -> dict[str, str]:
    packages = [str(ROOT / folder) for folder in (".", "lookup", "meta", "spark")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(packages)}


def begin(warehouse: Path | str, *words: str) -> subprocess.Popen[str]:
    """On a port that is free."""
    return subprocess.Popen(
        command(str(warehouse), "--port", "0", "--json", *words),
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def answering(process: subprocess.Popen[str]) -> Service:
    """When it does."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        with contextlib.suppress(ValueError):
            return Service(process, json.loads(said)["url"])
    raise AssertionError(f"it ended with {process.wait(PATIENCE_SECONDS)}: {said}")


@contextlib.contextmanager
def serving(warehouse: Path | str, count: int = 1) -> Iterator[list[Service]]:
    """The first one leads, where none did. They are ended with the block, as far as they go on."""
    processes = [begin(warehouse) for _ in range(count)]
    try:
        services = [answering(process) for process in processes]
        wait_for(lambda: services[0].got("/v1/leader")["url"] is not None)
        yield sorted(services, key=lambda service: not service.leads())
    finally:
        for process in processes:
            process.kill()
            process.wait(PATIENCE_SECONDS)
            if process.stdout is not None:
                process.stdout.close()
