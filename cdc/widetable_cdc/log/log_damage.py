"""The error for bytes of the log that are not of its grammar."""

from __future__ import annotations

from widetable import DamagedError


def damage(at: int, there: str, expected: str) -> DamagedError:
    """Return the error. at: the offset of the first wrong byte in the part. there: what stands at it."""
    return DamagedError(
        "part of the log of changes",
        found=f"{there} at byte {at:,}",
        expected=expected,
        action="Read the part again. If it stays so, check that the slot's plugin is pgoutput with protocol 1.",
    )
