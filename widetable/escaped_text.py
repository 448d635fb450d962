"""Texts as names of files: what Paimon escapes in the directories of partitions. Pure. Source: Paimon
`PartitionPathUtils`.
"""

from __future__ import annotations

from typing import Final

_ESCAPED: Final = frozenset(map(chr, [*range(0x20), 0x7F])) | frozenset("\"#%'*/:=?\\{}[]^")


def escape(text: str) -> str:
    """`%XX` (upper hex) for the characters that Paimon escapes in partition directories; others stay, blanks too."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)
