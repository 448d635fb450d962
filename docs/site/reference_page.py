"""The page of one public module in the API reference, as Markdown: MkDocs lays it out as it does the pages of docs/.

In: a module as pdoc reads it (docstrings, annotations, signatures), and the names of all modules that have pages.
Out: text.

    # widetable                       the module's docstring, a line of all names
    ## Catalog                        the class's docstring; Catalog and Table are first, then the order of `__all__`
    ### Catalog.create_table          how it is called, its docstring
    #### CommitResult.snapshot_id     an attribute

A name in backticks becomes a link where it is one of these, `docs/x.md` a link to that page. Sections of NumPy's style
(Parameters, Returns, ..) become lists below a word in bold, and their examples code.
"""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from pdoc.doc import Class, Doc, Function, Module, Variable
from pdoc.docstrings import numpy

_FIRST: Final = ("Catalog", "Table")
_CODE_OR_PLAIN: Final = re.compile(r"(?P<code>`+[^`]*`+)|(?P<plain>[^`]+)")
_NAME: Final = re.compile(r"`([A-Za-z_][\w.]*)(\(\))?`")
# Types are named as users import them: Table, and pyarrow.Table in place of pyarrow.lib.Table.
_SHORTENED: Final = re.compile(
    r"\bwidetable\w*\.(?:\w+\.)*(?=[A-Z])|(?<=\bpyarrow\.)(?:\w+\.)+(?=[A-Z])"
)
# pdoc makes it of a section's name. In bold it does not stand among the headings, which are names here.
_SECTION: Final = re.compile(r"^###### (.*)\n", re.MULTILINE)
_CITED: Final = re.compile(r"\bdocs/([a-z-]+\.md)\b")


def place_of(module: str) -> str:
    """Where its page lies in the site: widetable.connector -> api/widetable/connector.md."""
    return f"api/{module.replace('.', '/')}.md"


def anchors_of(module: Module) -> list[str]:
    """All names that its page has, in order: Table, Table.write, .."""
    return [one.qualname for member in _listed(module) for one in (member, *_members(member))]


def page_of(module: Module, anchors: Mapping[str, Sequence[str]]) -> str:
    """anchors: of each module that has a page, this one included."""
    links = _Links(module.modulename, anchors)
    listed = _listed(module)
    names = " · ".join(f"[{one.name}](#{one.qualname})" for one in listed)
    parts = [f"# {module.modulename}", _prose(module.docstring, links, ""), names]
    for member in listed:
        parts.append(_section(2, member, links))
        parts += (_section(_depth(one), one, links) for one in _members(member))
    return "\n\n".join(part for part in parts if part) + "\n"


class _Links:
    """From a name to its heading, as the page of one module writes it."""

    def __init__(self, module: str, anchors: Mapping[str, Sequence[str]]) -> None:
        up = "../" * (len(PurePosixPath(place_of(module)).parts) - 1)
        self.root = up
        self._targets: dict[str, str] = {}
        for other in sorted(anchors, key=lambda name: name == module):  # one's own names win
            page = "" if other == module else up + place_of(other)
            self._targets |= {name: f"{page}#{name}" for name in anchors[other]}
            self._targets |= {f"{other}.{name}": f"{page}#{name}" for name in anchors[other]}

    def target(self, name: str, within: str) -> str | None:
        """within: the class in whose docstring the name stands."""
        return self._targets.get(f"{within}.{name}") or self._targets.get(name)


def _listed(module: Module) -> list[Doc[Any]]:
    """Without modules: the one that the connector lists is described there in a line."""
    names = [n for n in module.obj.__all__ if not inspect.ismodule(getattr(module.obj, n))]
    ordered = [name for name in _FIRST if name in names]
    return [_member(module, name) for name in (*ordered, *(n for n in names if n not in _FIRST))]


def _member(module: Module, name: str) -> Doc[Any]:
    """What the name gives when it is asked for. pdoc does not ask: it sees no class that is imported only then, and a
    module in place of a function that has its name.
    """
    value = getattr(module.obj, name)
    if inspect.isclass(value):
        return Class(module.modulename, name, value, (value.__module__, value.__qualname__))
    if inspect.isfunction(value):
        return Function(module.modulename, name, value, (value.__module__, value.__qualname__))
    return module.members[name]


def _members(doc: Doc[Any]) -> list[Doc[Any]]:
    """Of a class: what is its own, and what it has of a base that has no page."""
    if not isinstance(doc, Class):
        return []
    return [
        one
        for one in doc.members.values()
        if _is_shown(one)
        and one.taken_from[0].partition(".")[0] == doc.modulename.partition(".")[0]
    ]


def _is_shown(doc: Doc[Any]) -> bool:
    return not doc.name.startswith("_") and not (isinstance(doc, Variable) and doc.is_typevar)


def _depth(doc: Doc[Any]) -> int:
    return 3 if isinstance(doc, Function) else 4


def _section(depth: int, doc: Doc[Any], links: _Links) -> str:
    within = doc.qualname if isinstance(doc, Class) else doc.qualname.rpartition(".")[0]
    parts = [
        f"{'#' * depth} {doc.qualname} {{ #{doc.qualname} }}",
        f"```python\n{_SHORTENED.sub(r'', _declaration(doc))}\n```",
        _prose(doc.docstring, links, within, _parameters(doc)),
    ]
    constructor = _constructor(doc)
    if constructor is not None:
        parts.append(_prose(constructor.docstring, links, within, _parameters(constructor)))
    return "\n\n".join(part for part in parts if part)


def _constructor(doc: Doc[Any]) -> Function | None:
    """That of a class which wrote its own: those of dataclasses say what the fields say, others are not for users."""
    found = doc.members.get("__init__") if isinstance(doc, Class) else None
    is_written = (
        isinstance(found, Function) and not is_dataclass(doc.obj) and not found.is_inherited
    )
    return found if is_written and isinstance(found, Function) else None


def _declaration(doc: Doc[Any]) -> str:
    """As it is called: a method without the table or catalog that stands before its dot."""
    if isinstance(doc, Class):
        constructor = _constructor(doc)
        arguments = "" if constructor is None else str(constructor.signature_without_self)
        return f"class {doc.qualname}{arguments}"
    if isinstance(doc, Function):
        is_method = "." in doc.qualname and not (doc.is_classmethod or doc.is_staticmethod)
        signature = doc.signature_without_self if is_method else doc.signature
        before = "".join(f"{one}\n" for one in doc.decorators if not one.startswith("@_"))
        return f"{before}{doc.funcdef} {doc.name}{signature}"
    assert isinstance(doc, Variable)
    return f"{doc.name}{doc.annotation_str}"


def _parameters(doc: Doc[Any]) -> list[str]:
    return list(doc.signature.parameters) if isinstance(doc, Function) else []


def _prose(text: str, links: _Links, within: str, parameters: Iterable[str] = ()) -> str:
    """A docstring. Blocks that are set in and examples are code; all else is text, in which only Markdown's own marks
    are.
    """
    names = "|".join(map(re.escape, parameters))
    described = (
        re.compile(rf"(^|(?<=[.;] ))((?:{names})(?:, (?:{names}))*):(?=\s)", re.M)
        if names
        else None
    )
    lines = []
    for is_code, block in _blocks(_SECTION.sub(r"**\1**\n\n", numpy(text))):
        if is_code:
            lines.append(block)
            continue
        if described is not None:
            block = described.sub(r"\1**\2**:", block)
        lines.append("".join(_linked(links, within, *part) for part in _cut(block)))
    return "\n\n".join(lines)


def _blocks(text: str) -> Iterator[tuple[bool, str]]:
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if block.startswith(">>> "):
            yield True, f"```pycon\n{block.rstrip()}\n```"
        elif block.strip():
            yield block.startswith("    "), block


def _cut(block: str) -> Iterator[tuple[bool, str]]:
    for found in _CODE_OR_PLAIN.finditer(block):
        yield found["code"] is not None, found[0]


def _linked(links: _Links, within: str, is_code: bool, text: str) -> str:
    if not is_code:
        return _CITED.sub(rf"[\1]({links.root}\1)", html.escape(text, quote=False))
    name = _NAME.fullmatch(text)
    target = links.target(name[1], within) if name else None
    return text if target is None else f"[{text}]({target})"
