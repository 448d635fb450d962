"""How far a widener has come: it stands in its own commits to the fact table, so rows and progress are there at once.

On disk: never change. Piece p of round n is commit n * 2^20 + p of the user `widen/<fk>`, with the digest

    end . <f> . <d> . <f0> . <d0> . <fingerprint>       the last piece: the columns are those of (f, d)
    part. <f> . <d> . <f0> . <d0> . <fingerprint>       others: they are those of (f0, d0), and some of (f, d) already

f, d: the snapshots of fact and dim that the round compares; f0, d0: those of the round before, 0 where it is not known.
The fingerprint is of the option and of the pair that counts: where it differs the dim was made again or the option
altered, and nothing is known. Consumers keep what the next round needs, and say nothing (decision 0029).

A round that another widener overtook finds its first number taken, so what is older never overwrites what is newer.
Raises what reading snapshots raises, StorageError.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final, NamedTuple

from widetable.commit.committed import last_of, users_of
from widetable.derived_options import WidenOption
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.operations.neighbour import name_of
from widetable.operations.open_table import OpenTable

PIECES: Final = 1 << 20
_FIELDS: Final = 6
_FINGERPRINT_DIGITS: Final = 32


class Pair(NamedTuple):
    """Snapshots of fact and dim."""

    fact_id: int
    dim_id: int


_NOTHING: Final = Pair(0, 0)


def user_of(option: WidenOption) -> str:
    """The commit user of a widener."""
    return f"widen/{option.column}"


def last_round(
    fact: OpenTable, dim: OpenTable, option: WidenOption, base: Snapshot | None
) -> tuple[int, Pair | None]:
    """As of a snapshot of the fact table: the number of the last round, 0 before the first; and what the columns are
    those of, None where nobody knows.
    """
    if base is None:
        return 0, None
    last = last_of(users_of(base, fact._committer.last_commits.load), user_of(option))
    if last is None:
        return 0, None
    fields = (last.digest or "").split(".")
    number = last.identifier // PIECES
    if len(fields) != _FIELDS or not all(map(str.isdecimal, fields[1:5])):
        return number, None
    ids = list(map(int, fields[1:5]))
    done = Pair(*ids[:2]) if fields[0] == "end" else Pair(*ids[2:])
    is_known = done != _NOTHING and _fingerprint(fact, dim, option, done) == fields[5]
    return number, done if is_known else None


def digest_of(
    fact: OpenTable,
    dim: OpenTable,
    option: WidenOption,
    pair: Pair,
    done: Pair | None,
    *,
    is_last: bool,
) -> str:
    """Of a piece of the round that compares `pair`; done: what the columns were those of before."""
    counts = pair if is_last else done
    known = "" if counts is None else _fingerprint(fact, dim, option, counts) or ""
    numbers = ".".join(map(str, (*pair, *(done or _NOTHING))))
    return f"{'end' if is_last else 'part'}.{numbers}.{known}"


def keep_snapshots(fact: OpenTable, dim: OpenTable, option: WidenOption, pair: Pair) -> None:
    """Let consumers hold these snapshots and all later ones, for the next round."""
    names = f"widen-{option.column}", f"widen-{name_of(fact)}-{option.column}"
    for table, name, id in zip((fact, dim), names, pair, strict=True):
        if table._consumers.next_snapshot(name) != id:
            table._consumers.record(name, id)


def _fingerprint(fact: OpenTable, dim: OpenTable, option: WidenOption, pair: Pair) -> str | None:
    """None where a snapshot has expired."""
    try:
        snapshots = [
            table._committer.snapshots.load(id) for table, id in zip((fact, dim), pair, strict=True)
        ]
    except NotFoundError:
        return None
    about = [[each.id, each.time_millis, each.delta_manifest_list] for each in snapshots]
    text = json.dumps([option.table, dict(option.columns), about])
    return hashlib.sha256(text.encode()).hexdigest()[:_FINGERPRINT_DIGITS]
