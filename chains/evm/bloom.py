"""The bloom filter in a block's header, used to doubt an empty answer.

A filter that contains what was asked for, beside an answer of no logs, is either chance or a
node that does not have the logs (yet): a reason to ask again. The other way round it is not
used: some chains leave it empty, so a filter never proves that there is nothing.
Source: Ethereum yellow paper, section 4.3.1 (three times 11 bits of the item's keccak).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from eth_hash.auto import keccak

_BLOOM = re.compile(r"0x[0-9a-fA-F]{512}", re.ASCII)


def mask_of(item: bytes) -> int:
    """The bits that `item` sets."""
    digest = keccak(item)
    mask = 0
    for first in (0, 2, 4):
        mask |= 1 << (int.from_bytes(digest[first : first + 2], "big") & 2047)
    return mask


def may_hold(bloom: str | None, *, all_of: int, any_of: Sequence[int]) -> bool:
    """Whether the filter may hold the mask `all_of` and one of `any_of`. No readable filter may hold anything."""
    if bloom is None or not _BLOOM.fullmatch(bloom):
        return True
    bits = int(bloom, 16)
    return bits & all_of == all_of and any(bits & one == one for one in any_of)
