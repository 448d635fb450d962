"""Kernels name what stands in their own file only: numba keeps a compiled one until that file changes, with the values
that other names had then.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.programs.parsed_source import parsed
from tests.test_layers import FOLDERS, modules_of

# What no version of this project changes.
_THEIRS = {"numpy", "numba", "__future__", "typing"}


def kernel_faults(source: str, module: str) -> list[str]:
    """Names of kernels, and of what these name in turn, that an import binds."""
    tree = parsed(source)
    foreign = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if _origin(node, alias) not in _THEIRS
    }
    own = dict(_bound(tree))
    faults = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _is_kernel(node):
            seen, left = set[str](), _named(*node.body)
            while left:
                name = left.pop()
                if name in foreign:
                    faults.append(f"{module}:{node.lineno} {node.name} names {name}")
                if name in own and name not in seen:
                    left |= _named(own[name])
                seen.add(name)
    return faults


def _origin(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    if isinstance(node, ast.ImportFrom):
        return "." if node.level else str(node.module).split(".")[0]
    return alias.name.split(".")[0]


def _is_kernel(node: ast.ClassDef | ast.FunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "kernel" for one in node.decorator_list)


def _bound(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Module constants and what their values are made of. Kernels are looked at by themselves."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name in _names(target):
                    yield name, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from ((name, node.value) for name in _names(node.target))
        elif isinstance(node, ast.ClassDef | ast.FunctionDef) and not _is_kernel(node):
            yield node.name, ast.Module(node.body, [])  # members of an enum are constants


def _names(target: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _named(*nodes: ast.AST) -> set[str]:
    """Names that are read."""
    return {
        node.id
        for root in nodes
        for node in ast.walk(root)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


@pytest.mark.parametrize("package", FOLDERS)
def test_kernels_name_what_their_own_file_defines(package: str) -> None:
    faults = []
    for path, module in modules_of(package):
        faults += kernel_faults(path.read_text(encoding="utf-8"), module)
    assert faults == []


@pytest.mark.parametrize(
    "head",
    [
        "from widetable.kernels.aggregate import ADD",
        "from .aggregate import ADD",
        "from widetable.kernels.aggregate import LATE as ADD",
        "from widetable.kernels import aggregate\nADD: Final = aggregate.ADD",
        "from widetable.kernels.aggregate import LATE\nADD = OTHER = LATE + 1",
        "from widetable.kernels.aggregate import LATE\ndef ADD(x):\n    return LATE",
        "from widetable.kernels.aggregate import LATE\nclass ADD:\n    x = LATE",
    ],
)
def test_a_constant_of_another_file_is_seen(head: str) -> None:
    body = "\n@kernel\ndef f(x):\n    x[0] = ADD\n"
    assert kernel_faults(head + body, "m") != []


@pytest.mark.parametrize(
    "head",
    ["ADD: Final = 1", "import numpy as np\nADD = np.int64(1)", "from x import LATE\nADD = 1"],
)
def test_a_constant_of_the_own_file_is_no_fault(head: str) -> None:
    body = "\n@kernel\ndef f(x):\n    x[0] = ADD\n"
    assert kernel_faults(head + body, "m") == []
