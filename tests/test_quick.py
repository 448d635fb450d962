"""`make quick` runs the tests that a change touches, the nearest ones first, and says how many it left out."""

from __future__ import annotations

from tests.support.programs.quick import MOST_TOUCHED, chosen, imported

_TESTS = {
    "tests/widetable/read/test_scan.py": frozenset({"widetable.read.scan"}),
    "tests/widetable/read/test_split.py": frozenset(
        {"widetable.read.split", "widetable.read.scan"}
    ),
    "tests/widetable/merge/test_plan.py": frozenset({"widetable.read.scan"}),
    "tests/spark/reading/test_reading.py": frozenset({"widetable_spark.reading.reading"}),
}


def test_tests_named_after_a_module_come_before_those_that_import_it() -> None:
    changed = ["widetable/read/scan.py"]
    assert chosen(changed, _TESTS).tests == (
        "tests/widetable/read/test_scan.py",
        "tests/widetable/read/test_split.py",
    )


def test_a_changed_test_comes_first() -> None:
    changed = ["widetable/read/scan.py", "tests/widetable/read/test_split.py"]
    assert chosen(changed, _TESTS).tests[0] == "tests/widetable/read/test_split.py"


def test_a_package_of_its_own_folder_is_found() -> None:
    changed = ["spark/widetable_spark/reading/reading.py"]
    assert chosen(changed, _TESTS).tests == ("tests/spark/reading/test_reading.py",)


def test_a_change_that_no_test_imports_touches_none() -> None:
    assert chosen(["README.md"], _TESTS) == ((), 0)


def test_what_is_left_out_is_counted() -> None:
    many = {f"tests/widetable/read/test_{n}.py": frozenset({"widetable.errors"}) for n in range(99)}
    choice = chosen(["widetable/errors.py"], many)
    assert (len(choice.tests), choice.left_out_count) == (MOST_TOUCHED, 99 - MOST_TOUCHED)


def test_imports_of_modules_and_of_names_are_seen() -> None:
    source = "import a.b\nfrom c import d\nif x:\n    from e.f import g"
    assert imported(source) == {"a.b", "c", "c.d", "e.f", "e.f.g"}
