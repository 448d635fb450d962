"""Who commits, and under which number and digest: what sets a commit that comes again apart from another one.

Raises InvalidError for what is no text or no number that can grow, and for a number, digest or replay without the user
that it is for.

    given                                        Identity                          counts
    nothing                                      a fresh user, without a number    each time
    user "job"                                   job, without a number             each time
    user "job", identifier 7                     job, 7                            once
    user "job", identifier 7, digest "ab.."      job, 7, what it is made of        once, proven (`replay`)
    identifier 7, or a digest, alone             InvalidError
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from widetable.arguments import flag, label, shown, whole_number
from widetable.errors import InvalidError
from widetable.format.snapshot import BATCH_COMMIT_IDENTIFIER

# Bytes. Both are kept in every snapshot for as long as the user is.
_LONGEST_USER: Final = 255
_LONGEST_DIGEST: Final = 128


@dataclass(frozen=True)
class Identity:
    """identifier: grows from commit to commit of a user; BATCH_COMMIT_IDENTIFIER for one that has none.

    digest: a text that is the same when the commit is made of the same, None: nobody can say. replay: the caller knows
    that the commit is in, if its identifier is not above the last one.
    """

    user: str
    identifier: int
    digest: str | None = None
    replay: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is to be in once."""
        return self.identifier != BATCH_COMMIT_IDENTIFIER

    @staticmethod
    def unnamed(user: str | None = None) -> Identity:
        """Of a commit that counts each time. A fresh user when none is given."""
        return Identity(user or str(uuid.uuid4()), BATCH_COMMIT_IDENTIFIER)

    @staticmethod
    def of(
        user: str | None,
        identifier: int | None,
        digest: str | None = None,
        replay: bool = False,
    ) -> Identity:
        """From arguments. A fresh user when none is given.

        Identifiers are from 0 to 2^63 - 2: the number above stands for none.
        """
        user = None if user is None else label(user, "commit_user", _LONGEST_USER)
        replay = flag(replay, "replay")
        asking = {"commit_identifier": identifier, "digest": digest, "replay": replay or None}
        given = [name for name, value in asking.items() if value is not None]
        if given and (user is None or identifier is None):
            raise InvalidError(
                given[0],
                found=f"it with the user {user!r} and the identifier {shown(identifier)}",
                expected="the user and the identifier that it counts for",
                action="Give a commit user and an identifier, or nothing of this.",
            )
        if identifier is None or user is None:
            return Identity.unnamed(user)
        most = BATCH_COMMIT_IDENTIFIER - 1
        number = whole_number(identifier, "commit_identifier", least=0, most=most)
        known = None if digest is None else label(digest, "digest", _LONGEST_DIGEST)
        return Identity(user, number, known, replay)
