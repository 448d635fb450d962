"""The case files of tests/vectors pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TESTS / "conformance.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_all_cases_pass() -> None:
    done = run(str(TESTS / "vectors"))
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines[-1] == "194 passed, 0 failed", done.stdout


@pytest.mark.parametrize(
    ("case_id", "commit"), [("cl-pu-003", "4"), ("cl-full-022", "2"), ("cl-in-005", "1")]
)
def test_a_wrong_changelog_fails(tmp_path: Path, case_id: str, commit: str) -> None:
    """The two changes of the commit are emitted in the other order."""
    body = json.loads((TESTS / "vectors/changelog.json").read_text(encoding="utf-8"))
    case = next(c for c in body["cases"] if c["id"] == case_id)
    assert len(case["changelog"][commit]) == 2
    case["changelog"][commit].reverse()
    (tmp_path / "broken.json").write_text(json.dumps(body), encoding="utf-8")
    done = run(str(tmp_path), "--case", case_id)
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed"
    assert f"changelog of commit {commit}" in done.stdout


def test_a_wrong_expectation_fails(tmp_path: Path) -> None:
    body = json.loads((TESTS / "vectors/deduplicate.json").read_text(encoding="utf-8"))
    case = next(c for c in body["cases"] if "merge-engine" not in c["options"])
    last = max(case["after"], key=int)
    case["after"][last] = case["after"][last][1:]
    (tmp_path / "broken.json").write_text(json.dumps(body), encoding="utf-8")
    done = run(str(tmp_path), "--case", case["id"])
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed"
    assert f"rows after commit {last}" in done.stdout
    assert "expected" in done.stdout
    assert "got" in done.stdout
