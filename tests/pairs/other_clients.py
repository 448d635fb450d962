"""What a scenario asks of other processes: pypaimon, Spark, an S3 server. Whoever plays it hands them in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import pyarrow as pa

import widetable as wt
from tests.pairs.reading import Request


def _none() -> NoReturn:
    raise AssertionError("a scenario that needs an S3 server, and nobody who has one")


@dataclass(frozen=True)
class Others:
    """By the values of the dimensions. writers: of `client`, one commit of rows. readers: of `reader`, all rows.

    followers: of `reader`, what has come since the last call: records with their kinds. server: the port of an S3
    server, which starts when it is asked for first.
    """

    writers: Mapping[str, Callable[[wt.Table, pa.Table], None]] = field(default_factory=dict)
    readers: Mapping[str, Callable[[Request], list[dict[str, Any]]]] = field(default_factory=dict)
    followers: Mapping[str, Callable[[wt.Table], Iterable[pa.RecordBatch]]] = field(
        default_factory=dict
    )
    server: Callable[[], int] = field(default=_none)


NOBODY: Final = Others()
