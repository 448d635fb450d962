"""When a row is a sample, and what it has: the arguments of `Table.follow_samples`, checked, as one value.

    complete   columns without which a row is no sample
    eager      columns that make it ready before its time: all of them are there
    due        on + the longest of `wait` and the labels' times, passed by the watermark of the slowest writer
    neither    without `wait` and labels a row is ready as soon as it is complete

The table of the samples stores the rule as JSON, so all who follow it follow one rule. In: what a caller gives. Out: a
`SampleRule`, and its text. Pure. Raises InvalidError for arguments that do not fit one another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from widetable.arguments import instance, mapping, names, one_of, refused, text, whole_number
from widetable.derive.samples.label import SampleLabel
from widetable.errors import InvalidError
from widetable.operations.windows.window import duration_millis

_LABEL: Final = "label"
_LARGEST_SEED: Final = 2**64 - 1


class Late(Enum):
    """What follows a change of a sample that was given."""

    DROP = "drop"
    CORRECT = "correct"


@dataclass(frozen=True)
class Negatives:
    """The share of negative samples that is kept. column: it is 0 or false in them."""

    share: float
    seed: int
    column: str


@dataclass(frozen=True)
class SampleRule:
    """A checked rule. columns: of the samples besides the key; None: all. writers: commit users, None: all."""

    complete: tuple[str, ...]
    eager: tuple[str, ...]
    on: str | None
    wait_millis: int | None
    defaults: dict[str, str | int | float | bool]
    labels: dict[str, SampleLabel]
    late: Late
    negatives: Negatives | None
    columns: tuple[str, ...] | None
    writers: tuple[str, ...] | None
    event_times: dict[str, str | None]

    @property
    def waits(self) -> bool:
        """Whether a row that is complete may have to wait for its time."""
        return self.wait_millis is not None or bool(self.labels)

    @property
    def longest_millis(self) -> int:
        """How long after the time of a row it is due."""
        return max([self.wait_millis or 0, *(each.within_millis for each in self.labels.values())])

    def to_text(self) -> str:
        """Return the rule as its table stores it: rules of one text give the same samples."""
        body = {
            "complete": self.complete,
            "eager": self.eager,
            "on": self.on,
            "wait": self.wait_millis,
            "defaults": self.defaults,
            "labels": {name: astuple(each) for name, each in self.labels.items()},
            "late": self.late.value,
            "negatives": self.negatives and astuple(self.negatives),
            "columns": self.columns,
            "writers": self.writers,
            "event_times": self.event_times,
        }
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    @staticmethod
    def from_text(text: str) -> SampleRule:
        """Return the rule that a table stores."""
        body = json.loads(text)
        negatives, labels = body["negatives"], body["labels"]
        columns, writers = body["columns"], body["writers"]
        return SampleRule(
            complete=tuple(body["complete"]),
            eager=tuple(body["eager"]),
            columns=None if columns is None else tuple(columns),
            writers=None if writers is None else tuple(writers),
            on=body["on"],
            wait_millis=body["wait"],
            defaults=body["defaults"],
            labels={name: SampleLabel(*each) for name, each in labels.items()},
            late=Late(body["late"]),
            negatives=None if negatives is None else Negatives(*negatives),
            event_times=body["event_times"],
        )


@dataclass(frozen=True)
class SampleArguments:
    """Unchecked arguments of a set of samples, as `Table.follow_samples` describes them.

    Attributes
    ----------
    complete, eager, columns, writers : list of str
        Columns, and commit users.
    on : str or None
        The column with the time of a sample.
    wait : str, timedelta or None
        How long a sample waits.
    labels, defaults : dict or None
        Labels and values for nulls, by column.
    late : str
        What follows a late change.
    negatives : float, dict of str to float, or None
        The share of negatives to keep, perhaps by the column that says it.
    seed : int
        Which ones.
    event_times : dict of str to str or None
        Units of times.
    """

    complete: Any
    on: Any = None
    wait: Any = None
    eager: Any = ()
    labels: Any = None
    defaults: Any = None
    late: Any = "drop"
    negatives: Any = None
    seed: Any = 0
    columns: Any = None
    writers: Any = None
    event_times: Any = None

    def checked(self) -> SampleRule:
        """Return the rule.

        Returns
        -------
        SampleRule
            The rule, which knows no table yet.

        Raises
        ------
        InvalidError
            An argument does not fit.
        """
        given = mapping(self.defaults, "defaults")
        labels = mapping(self.labels, "labels")
        writers = self.writers
        rule = SampleRule(
            complete=names(self.complete, "complete"),
            eager=names(self.eager, "eager"),
            on=None if self.on is None else text(self.on, "on"),
            wait_millis=None if self.wait is None else duration_millis(self.wait, "wait"),
            defaults={name: _default(name, each) for name, each in given.items()},
            labels={
                name: instance(each, SampleLabel, f"labels[{name!r}]")
                for name, each in labels.items()
            },
            late=Late(one_of(self.late, [each.value for each in Late], "late")),
            negatives=_negatives(self.negatives, self.seed),
            columns=None if self.columns is None else names(self.columns, "columns"),
            writers=None if writers is None else tuple(sorted(names(writers, "writers"))),
            event_times=_units(self.event_times),
        )
        _check(rule)
        return rule


def _negatives(share: Any, seed: Any) -> Negatives | None:
    number = whole_number(seed, "seed", least=0, most=_LARGEST_SEED)
    if share is None:
        return None
    column = _LABEL
    if isinstance(share, Mapping) and len(share) == 1:
        ((column, share),) = mapping(share, "negatives").items()
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise refused(
            share, "negatives", "the share to keep, above 0 and at most 1, or {column: share}"
        )
    return Negatives(float(share), number, column)


def _default(name: str, value: Any) -> str | int | float | bool:
    """Return a value as JSON holds it: times and decimals as texts, which are cast to the type of their column."""
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, date | Decimal):
        return str(value)
    raise refused(value, f"defaults[{name!r}]", "a text, number, boolean, date, time or decimal")


def _units(event_times: Any) -> dict[str, str | None]:
    if isinstance(event_times, list | tuple):
        return dict.fromkeys(names(event_times, "event_times"))
    return mapping(event_times, "event_times")


def _check(rule: SampleRule) -> None:
    if not rule.complete:
        raise refused((), "complete", "a column at least, without which a row is no sample")
    if rule.waits and rule.on is None:
        raise InvalidError(
            "on",
            found="no column, with " + ("labels" if rule.labels else "wait"),
            expected="the column with the time of a sample, from which it waits",
            action="Name the column.",
        )
    if rule.eager and not rule.waits:
        raise InvalidError(
            "eager",
            found=f"{', '.join(rule.eager)}, without wait and labels",
            expected="columns that end a wait",
            action="Pass wait, or name the columns in complete.",
        )
    if rule.writers == ():
        raise refused((), "writers", "a commit user at least, or None for all")
