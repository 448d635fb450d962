"""The watermark that each writer of a table has reached. That of a snapshot is the highest, so the fastest writer's.

    widetable.watermarks = JSON object: commit user -> epoch millis, "" for all commits without an identifier

    snapshot   commit of    with watermark    that of the snapshot    watermarks
    1          clicks       10:30             10:30                   {"clicks": 10:30}
    2          orders       10:05             10:30                   {"clicks": 10:30, "orders": 10:05}
    3          a compaction                   10:30                   as before

Each snapshot carries the property over. Other clients do not: the search goes back to the newest snapshot that has it,
or that we wrote, and a snapshot of another client whose watermark is higher than the one before counts for its user.
Pure, but for `load`, which returns a snapshot by id. Raises DamagedError for a property of another form.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Final

from widetable.commit.snapshots.committed import (
    WATERMARKS,
    Load,
    before,
    damaged_property,
    remembers,
)
from widetable.format.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot

UNNAMED: Final = ""
# From this number on, writers whose last commit is not remembered any more are left out.
MANY_WRITERS: Final = 100


def writer_watermarks(snapshot: Snapshot | None, load: Load) -> dict[str, int]:
    """Return the watermark of each writer as of a snapshot, epoch millis; of those before an expired one none."""
    return known_watermarks(snapshot, load)[0]


def known_watermarks(snapshot: Snapshot | None, load: Load) -> tuple[dict[str, int], bool]:
    """Return also whether these are all: not if snapshots have expired that nobody of us has looked at."""
    foreign: list[Snapshot] = []
    while (
        snapshot is not None and WATERMARKS not in snapshot.properties and not remembers(snapshot)
    ):
        foreign.append(snapshot)
        snapshot = before(snapshot, load)
    reached = {} if snapshot is None else _recorded(snapshot)
    highest = None if snapshot is None else snapshot.watermark
    for later in reversed(foreign):
        if later.watermark is not None and (highest is None or later.watermark > highest):
            highest = later.watermark
            _raise(reached, writer_of(later.commit_user, later.commit_identifier), highest)
    return reached, snapshot is not None or not foreign or foreign[-1].id == 1


def writer_of(user: str, identifier: int) -> str:
    """Return the name under which a commit counts. Users without identifiers are new ones at each commit."""
    return UNNAMED if identifier == BATCH_COMMIT_IDENTIFIER else user


def next_watermarks(
    reached: Mapping[str, int], writer: str, watermark: int | None, remembered: Collection[str]
) -> dict[str, str]:
    """Return the property of the next snapshot. remembered: the users whose last commit the table still knows."""
    after = dict(reached)
    if watermark is not None:
        _raise(after, writer, watermark)
    if len(after) > MANY_WRITERS:
        kept = {*remembered, writer, UNNAMED}
        after = {name: millis for name, millis in after.items() if name in kept}
    if not after:
        return {}
    return {WATERMARKS: json.dumps(after, separators=(",", ":"), ensure_ascii=False)}


def _raise(reached: dict[str, int], writer: str, watermark: int) -> None:
    reached[writer] = max(watermark, reached.get(writer, watermark))


def _recorded(snapshot: Snapshot) -> dict[str, int]:
    text = snapshot.properties.get(WATERMARKS, "{}")
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not all(type(millis) is int for millis in body.values()):
        raise damaged_property(snapshot.id, WATERMARKS, text, "commit user -> epoch millis")
    return body
