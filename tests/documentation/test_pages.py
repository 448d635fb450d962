"""Every block of code in README.md and docs runs: here, or in the test that is named here.

A page's blocks run in their order in a directory of their own, which stands for /tmp, and print what stands below them.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation.test_readme import SUBMIT
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.page_program import RUN
from tests.support.programs.pages import PAGES, ROOT, Block, blocks, blocks_of, name_of
from tests.support.programs.parsed_source import parsed
from tests.support.tables.page_tables import PREPARED

# Pages whose blocks in a language another test takes, all of them.
TAKEN = {
    (
        "README.md",
        "python",
    ): "tests/documentation/test_readme.py::test_examples_run_by_the_path_of_the_interpreter_alone",
    (
        "docs/enrich-a-stream.md",
        "python",
    ): "tests/test_enrich_a_stream.py::test_the_example_runs_in_workers_that_start_warm",
    **dict.fromkeys(
        (("docs/bring-a-database-along.md", each) for each in ("bash", "python", "sql", "toml")),
        "tests/cdc/test_page.py::test_the_page_does_what_it_says",
    ),
    (
        "docs/mysql-and-mariadb.md",
        "toml",
    ): "tests/cdc/jobs/test_engine_config.py::test_the_file_of_the_page",
    (
        "docs/mysql-and-mariadb.md",
        "xml",
    ): "tests/cdc/mariadb/test_mariadb.py::test_case_24_a_database_is_followed_through_kills",
    (
        "docs/into-pytorch.md",
        "py",
    ): "tests/widetable/derive/loading/test_torch_rows.py::test_the_page_does_what_it_says",
    (
        "docs/from-feast.md",
        "py",
    ): "tests/feast/test_page.py::test_the_page_does_what_it_says",
    (
        "docs/from-feast.md",
        "yaml",
    ): "tests/feast/test_page.py::test_the_page_does_what_it_says",
    (
        "docs/meta-service.md",
        "python",
    ): "tests/meta/test_docs_page.py::test_the_page_does_what_it_says",
    (
        "docs/meta-service.md",
        "bash",
    ): "tests/meta/test_docs_page.py::test_the_page_does_what_it_says",
    (
        "docs/object-stores.md",
        "python",
    ): "tests/object_stores/test_page.py::test_the_page_does_what_it_says",
    (
        "docs/object-stores.md",
        "bash",
    ): "tests/object_stores/test_page.py::test_the_page_does_what_it_says",
}
# Lines of shell that set up, or run tests and benchmarks themselves.
COMMANDS = {
    "make demo": "tests/examples/test_flights_demo.py::test_the_demo_fills_all_tables_and_finds_wrong_values",
    "make test": "tests/documentation/test_pages.py::test_a_page_does_what_it_says",
    "make bench": "tests/benchmarks/test_workloads.py::test_a_workload_runs_at_its_tiny_size",
    "python -m benchmarks.engine.bench_wide_columns": (
        "tests/benchmarks/test_wide_columns_beside_java.py::test_a_run_takes_the_numbers_that_are_given"
    ),
    "spark-class org.apache.spark.deploy.master.Master": (
        "tests/cluster/test_cluster.py::test_nothing_is_lost_when_a_worker_and_the_driver_are_killed"
    ),
    "pip install": "tests/test_wheel.py::test_a_read_only_installation_without_a_home_runs_the_example",
}


def is_run_elsewhere(line: str) -> bool:
    return any(line == known or line.startswith(f"{known} ") for known in COMMANDS)


def lines_of(block: Block) -> list[str]:
    """Of a shell, without remarks."""
    return [
        line for text in block.text.splitlines() if (line := re.sub(r"(^| +)#.*", "", text).strip())
    ]


def runs_elsewhere(block: Block) -> bool:
    if (block.page, block.language) in TAKEN:
        return True
    return block.language == "bash" and all(map(is_run_elsewhere, lines_of(block)))


def faults(block: Block) -> list[str]:
    """What keeps a block from being run."""
    if block.language == "text" or runs_elsewhere(block):
        return []
    if block.language not in RUN:
        return [
            f"{block.place}: {block.language or 'no'} language; fence it, with text or {list(RUN)}"
        ]
    if block.language == "bash" and any(map(is_run_elsewhere, lines_of(block))):
        return [f"{block.place}: commands that run elsewhere, among others"]
    return []


def runnable(page: Path) -> list[Block]:
    return [b for b in blocks(page) if b.language in RUN and not runs_elsewhere(b)]


def uses_spark(page: Path) -> bool:
    return any("pyspark" in block.text for block in runnable(page))


def is_slow(page: Path) -> bool:
    """Commands are processes that import the engine."""
    return uses_spark(page) or str(runnable(page)).count("widetable ") > 5


def test_every_block_is_run() -> None:
    assert [fault for page in PAGES for block in blocks(page) for fault in faults(block)] == []


@pytest.mark.parametrize("test", sorted({*TAKEN.values(), *COMMANDS.values()}))
def test_a_test_that_is_named_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    tree = parsed((ROOT / file).read_text("utf-8"))
    assert name in [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def test_targets_of_make_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for name in (line.split()[1] for line in COMMANDS if line.startswith("make ")):
        assert f"\n{name}:" in makefile


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] if is_slow(page) else [])
        for page in PAGES
        if runnable(page)
    ],
)
def test_a_page_does_what_it_says(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if uses_spark(page):
        request.getfixturevalue("java_home")
    known = runnable(page)
    prepare = PREPARED.get(name_of(page))
    if prepare is not None:
        prepare(tmp_path)
    here = f"{tmp_path}/"
    given, answers = tmp_path / "blocks.json", tmp_path / "printed.json"
    given.write_text(json.dumps([[b.language, b.text.replace("/tmp/", here)] for b in known]))
    command = [
        sys.executable,
        "-m",
        "tests.support.programs.page_program",
        str(given),
        str(answers),
    ]
    ran = subprocess.run(
        command,
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    for block, printed in zip(known, json.loads(answers.read_text()), strict=True):
        found = printed.replace(here, "/tmp/")
        if block.printed is not None:
            assert is_as_said(found, block.printed), f"{block.place}\n{found}"
        else:
            assert "[exit code" not in found, f"{block.place}\n{found}"


def is_as_said(found: str, said: str) -> bool:
    return re.fullmatch(re.escape(said).replace("…", ".*"), found) is not None


def environment(folder: Path) -> dict[str, str]:
    """With this checkout's packages and `widetable` on the path."""
    commands = folder / "commands"
    commands.mkdir()
    script = commands / "widetable"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m widetable "$@"\n')
    script.chmod(0o755)
    packages = [str(ROOT / folder) for folder in (".", "cdc", "lookup", "meta", "spark")]
    return {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([*packages, os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_SUBMIT_ARGS": f"{SUBMIT} pyspark-shell",
    }


def test_a_block_that_nothing_runs_is_seen() -> None:
    page = "a\n\n```json\n{}\n```\n\n```\nx\n```\n\nb\n\n    widetable ls\n\n```bash\nmake test\nls\n```\n"
    assert [len(faults(block)) for block in blocks_of(page, "docs/a.md")] == [1, 1, 1, 1]
    page = "```python\nprint(1)\n```\n\n```text\n1\n```\nb\n```text\n2\n```\n- c\n\n    d\n"
    first, second = blocks_of(page, "docs/a.md")
    assert (first.text, first.printed, second.text) == ("print(1)\n", "1\n", "2\n")
    assert blocks_of("- a\n\n    ```bash\n    ls\n", "docs/a.md")[0].language == "indented"
    assert not is_as_said("2\n", first.printed or "")
