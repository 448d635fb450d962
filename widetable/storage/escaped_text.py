"""Escapes texts for file names, as Paimon does in the directories of partitions. Pure. Source: Paimon
`PartitionPathUtils`.

    a b/ü=1:    a b%2Fü%3D1%3A

"%" itself is escaped, so two texts never have the same name. Names that are not the escape of any text, such as those
that begin with `%sha256-`, are free for our own use (`job_names`).
"""

from __future__ import annotations

from typing import Final

# Control characters, and characters with a meaning in paths, URLs and Hive's names. A blank is not among them.
_ESCAPED: Final = frozenset(map(chr, [*range(0x20), 0x7F])) | frozenset("\"#%'*/:=?\\{}[]^")


def escape(text: str) -> str:
    """Replace the characters that Paimon escapes in partition directories by `%XX` (upper hex); blanks stay."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)
