"""The identity of a commit: its user, identifier and digest, which tell a repeated commit from another one.

Raises InvalidError for a value of a wrong type or range, and for an identifier, digest or replay without the user that
it is for.

    arguments                                    Identity                          counts
    nothing                                      a fresh user, no identifier       each time
    user "job"                                   job, no identifier                each time
    user "job", identifier 7                     job, 7                            once
    user "job", identifier 7, digest "ab.."      job, 7, ab..                      once, proven (`replay`)
    identifier 7, or a digest, alone             InvalidError
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from widetable.arguments import flag, label, shown, whole_number
from widetable.errors import InvalidError
from widetable.format.snapshot import BATCH_COMMIT_IDENTIFIER

# Bytes. Every snapshot stores both for as long as it lists the user.
_LONGEST_USER: Final = 255
_LONGEST_DIGEST: Final = 128


@dataclass(frozen=True)
class Identity:
    """The identity of a commit. identifier: grows from commit to commit of a user; BATCH_COMMIT_IDENTIFIER for none.

    digest: a text that depends on what the commit is made of, None if it is not known. replay: the caller knows that
    the commit was made, if its identifier is not above the last one.
    """

    user: str
    identifier: int
    digest: str | None = None
    replay: bool = False

    @property
    def counts(self) -> bool:
        """Whether the commit must be made only once."""
        return self.identifier != BATCH_COMMIT_IDENTIFIER

    @staticmethod
    def unnamed(user: str | None = None) -> Identity:
        """Return the identity of a commit that counts each time, with a fresh user unless one is given."""
        return Identity(user or str(uuid.uuid4()), BATCH_COMMIT_IDENTIFIER)

    @staticmethod
    def of(
        user: str | None,
        identifier: int | None,
        digest: str | None = None,
        replay: bool = False,
    ) -> Identity:
        """Return the identity for these arguments, with a fresh user unless one is given.

        Identifiers are from 0 to 2^63 - 2: the number above means none.
        """
        user = None if user is None else label(user, "commit_user", _LONGEST_USER)
        replay = flag(replay, "replay")
        needing_both = {"commit_identifier": identifier, "digest": digest, "replay": replay or None}
        given = [name for name, value in needing_both.items() if value is not None]
        if given and (user is None or identifier is None):
            raise InvalidError(
                given[0],
                found=f"the user {user!r} and the identifier {shown(identifier)}",
                expected=f"a user and an identifier, which {given[0]} requires",
                action="Give a commit user and an identifier, or none of these arguments.",
            )
        if identifier is None or user is None:
            return Identity.unnamed(user)
        most = BATCH_COMMIT_IDENTIFIER - 1
        number = whole_number(identifier, "commit_identifier", least=0, most=most)
        checked = None if digest is None else label(digest, "digest", _LONGEST_DIGEST)
        return Identity(user, number, checked, replay)
