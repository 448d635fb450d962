"""Every warning has a code, and docs/warnings.md lists those that the sources say: no more and no less."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs.pages import ROOT
from tests.support.programs.parsed_source import parsed
from tests.test_style import PACKAGES, sources
from widetable.messages import warnings_doc
from widetable.messages.warning_code import RECORD_KEY, WarningCode, coded, warn

PAGE = ROOT / "docs/warnings.md"
# What alone calls a logger's own methods of these names.
_SAYING = Path("widetable/messages/warning_code.py")
_LOUD = {"warn", "warning", "error", "exception", "critical"}
_LOGGERS = {"_log", "LOGGER", "logger", "logging", "warnings"}

every_code = pytest.mark.parametrize("code", WarningCode, ids=lambda code: code.name)


def calls(source: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(parsed(source)) if isinstance(node, ast.Call))


def uncoded(source: str, path: Path) -> list[str]:
    """Calls that warn without a code: of a logger, of `warnings`, or on standard error."""
    faults = []
    for call in calls(source):
        asked = call.func
        if (
            isinstance(asked, ast.Attribute)
            and asked.attr in _LOUD
            and isinstance(asked.value, ast.Name)
            and asked.value.id in _LOGGERS
        ):
            faults.append(f"{path}:{call.lineno}: {ast.unparse(asked)} without a code")
        words = [ast.unparse(each) for each in call.args]
        if words[1:] == ["'warning'", "sys.stderr"] and not words[0].startswith("coded("):
            faults.append(f"{path}:{call.lineno}: a line of warning without a code")
    return faults


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == warnings_doc.render(), "run: make docs"


def test_a_code_is_of_one_warning() -> None:
    codes = [code.code for code in WarningCode]
    assert len(codes) == len(set(codes))
    assert codes == sorted(codes)


@every_code
def test_code_says_its_cause_and_what_to_do(code: WarningCode) -> None:
    assert re.fullmatch(r"WT-W[1-9]\d\d", code.code)
    for sentence in (code.value.cause, code.value.action):
        assert re.fullmatch(r"[A-Z`].*[.]", sentence)
        assert "|" not in sentence


def test_no_warning_is_without_a_code() -> None:
    faults = []
    for path in sources(PACKAGES):
        if path != _SAYING:
            faults += uncoded((ROOT / path).read_text("utf-8"), path)
    assert faults == []


@pytest.mark.parametrize(
    "source",
    [
        '_log.warning("x")',
        'LOGGER.exception("x")',
        'warnings.warn("x")',
        'write_line(text, "warning", sys.stderr)',
    ],
)
def test_a_warning_without_a_code_is_seen(source: str) -> None:
    assert uncoded(source, Path("x.py")) != []


def test_every_code_is_said_somewhere() -> None:
    said = {
        node.attr
        for path in sources(PACKAGES)
        for node in ast.walk(parsed((ROOT / path).read_text("utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "WarningCode"
    }
    assert said == {code.name for code in WarningCode}


def test_a_record_has_its_code_and_where_it_was_said(caplog: pytest.LogCaptureFixture) -> None:
    warn(logging.getLogger("widetable"), WarningCode.TAG_NOT_CREATED, "%s: not yet", "/t")
    (record,) = caplog.records
    assert (
        record.getMessage()
        == coded(WarningCode.TAG_NOT_CREATED, "/t: not yet")
        == "WT-W207 /t: not yet"
    )
    assert getattr(record, RECORD_KEY) == "WT-W207"
    assert (record.levelno, Path(record.pathname).name) == (logging.WARNING, Path(__file__).name)
