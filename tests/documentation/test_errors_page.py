"""Every error has a stable code of its kind, and docs/errors.md lists the codes that the sources use."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs.pages import ROOT
from tests.support.programs.parsed_source import parsed
from tests.test_style import PACKAGES, sources
from widetable import errors
from widetable.errors import NotFoundError, WidetableError
from widetable.messages import errors_doc
from widetable.messages.error_code import ErrorCode

PAGE = ROOT / "docs/errors.md"
# Kind to the digit of its codes.
DIGITS = {
    "InvalidError": "1",
    "NotFoundError": "2",
    "UnsupportedError": "3",
    "DamagedError": "4",
    "ConflictError": "5",
    "StorageError": "6",
}
GENERAL = {code for code in ErrorCode if code.code.endswith("00")}

every_code = pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)


def coded_calls(source: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, name of the code) of each error that a source makes with a code of its own."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in DIGITS:
            for word in node.keywords:
                if word.arg == "code" and ast.unparse(word.value).startswith("ErrorCode."):
                    yield ast.unparse(node.func), ast.unparse(word.value).removeprefix("ErrorCode.")


def all_coded_calls() -> set[tuple[str, str]]:
    paths = [path for path in sources(PACKAGES) if path != Path("widetable/errors.py")]
    return {call for path in paths for call in coded_calls((ROOT / path).read_text("utf-8"))}


def test_the_page_of_errors_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == errors_doc.render(), "run: make docs"


def test_a_code_is_of_one_situation() -> None:
    codes = [code.code for code in ErrorCode]
    assert len(codes) == len(set(codes))
    assert codes == sorted(codes)


@every_code
def test_a_code_says_its_cause_and_what_to_do(code: ErrorCode) -> None:
    assert re.fullmatch(r"WT-E[1-6]\d\d", code.code)
    for sentence in (code.value.cause, code.value.action):
        assert re.fullmatch(r"[A-Z`].*[.]", sentence)
        assert "|" not in sentence


def test_errors_have_codes_of_their_kind() -> None:
    for kind, name in all_coded_calls():
        assert ErrorCode[name].code[4] == DIGITS[kind], f"{kind} with {name}"


def test_every_code_is_used() -> None:
    used = {ErrorCode[name] for _, name in all_coded_calls()}
    assert used | GENERAL == set(ErrorCode)


@pytest.mark.parametrize("kind", DIGITS)
def test_an_error_without_a_code_has_the_general_one_of_its_kind(kind: str) -> None:
    error: WidetableError = getattr(errors, kind)("x", found="a", expected="b", action="c")
    assert error.code == f"WT-E{DIGITS[kind]}00"


def test_a_code_travels_with_its_error() -> None:
    error = NotFoundError("x", found="a", expected="b", action="c", code=ErrorCode.TAG_NOT_FOUND)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, str(again)) == ("WT-E205", str(error))


def test_a_wrong_kind_is_seen() -> None:
    [(kind, name)] = coded_calls("raise ConflictError('x', found='', code=ErrorCode.TAG_NOT_FOUND)")
    assert ErrorCode[name].code[4] != DIGITS[kind]
