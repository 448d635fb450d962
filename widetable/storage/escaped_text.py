"""Texts as names of files: what Paimon escapes in the directories of partitions. Pure. Source: Paimon
`PartitionPathUtils`.

    a b/ü=1:    a b%2Fü%3D1%3A

"%" is escaped itself, so two texts never have one name; what no text escapes to, such as `%sha256-`, is free for names
of ours (`job_names`).
"""

from __future__ import annotations

from typing import Final

# Control characters, and what means something in paths, URLs and Hive's names. A blank is not among them.
_ESCAPED: Final = frozenset(map(chr, [*range(0x20), 0x7F])) | frozenset("\"#%'*/:=?\\{}[]^")


def escape(text: str) -> str:
    """`%XX` (upper hex) for the characters that Paimon escapes in partition directories; others stay, blanks too."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)
