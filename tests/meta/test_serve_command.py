"""`widetable meta serve`: what keeps it from serving is told in one line."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.service_process import command, environment
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.command_line import run
from tests.widetable.cli.test_meta import fill


def refused(*words: str) -> str:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    result = run("meta", "serve", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert {number: signal.getsignal(number) for number in before} == before
    return result.stderr


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        found = refused(warehouse, "--port", port)
    assert found.startswith(f"StorageError: port {port} of '127.0.0.1'")
    assert "in use" in found
    assert "--port" in found


def test_a_warehouse_that_is_not_there_is_told(tmp_path: Path) -> None:
    found = refused(str(tmp_path / "nowhere"), "--port", "0")
    assert found.startswith("NotFoundError: ")
    assert "no database" in found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--port", "-1"), "--port"),
        (("--port", "65536"), "--port"),
        (("--host", "no such host.invalid", "--port", "0"), "--host"),
        (("--host", "\ud800", "--port", "0"), "--host"),
        (("--host", "x" * 300, "--port", "0"), "--host"),
        (("--host", "192.0.2.1", "--port", "0"), "is not available"),  # of no machine
        (("--url", "nonsense", "--port", "0"), "--url"),
        (("--url", "http://[", "--port", "0"), "--url"),
        (("--url", "http://a#b", "--port", "0"), "--url"),
        (("--limit", "1"), "--limit"),
    ],
    ids=lambda given: ascii(given)[:40],
)
def test_words_that_do_not_fit_are_told(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    assert said in refused(fill(tmp_path), *words)


def test_options_of_serve_stand_with_it_alone(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    for words in (("--port", "1"), ("--host", "x"), ("--url", "http://x")):
        result = run("meta", "show", warehouse, *words)
        assert (result.exit_code, words[0] in result.stderr) == (2, True)


def test_without_its_packages_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = fill(tmp_path)
    monkeypatch.setitem(sys.modules, "widetable_meta.serving", None)
    found = refused(warehouse)
    assert found.startswith("UnsupportedError: ")
    assert "pip install 'widetable[meta]'" in found


def test_sigint_ends_it_and_people_are_told_where_it_is_served(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    process = subprocess.Popen(
        command(warehouse, "--port", "0", "--url", "http://shop.example:7/"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{warehouse} is served at http://shop.example:7\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()


def test_the_engine_has_no_need_of_it(tmp_path: Path) -> None:
    program = """
import sys, widetable as wt, widetable.cli.actions.meta
wt.Catalog(sys.argv[1]).topology().tables()
print(sorted({"fastapi", "widetable_meta", "requests", "jinja2"} & {n.split(".")[0] for n in sys.modules}))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, fill(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert ran.stdout == "[]\n"
