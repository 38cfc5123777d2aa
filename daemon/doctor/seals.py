"""Is history as it was when it was sealed? Pure: hashes are computed here, not asked of the database.

Rule 1: an entry's leaf is the SHA-256 of its JSON array; a seal's hash is the SHA-256 of
`payoutd ledger seal 1`, its number, its first and last entry (8 bytes each, big-endian), the hash before it
and its leaves, each of them 8 bytes of entry number and 32 bytes of hash.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from daemon.store.seals import FIRST, RULE, Seal

PREFIX = b"payoutd ledger seal 1"
LEAF = struct.Struct(">q32s")
SWAPS_MOST = 30  #: changed entries of one seal among which it is looked for exchanged ones


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it was sealed."""

    seal_id: int
    what: str
    entry_id: int | None = None

    def __str__(self) -> str:
        """One sentence that names the entry and the seal."""
        return self.what


def hash_of(seal: Seal) -> bytes:
    """The hash that a seal with this content must have."""
    numbers = struct.pack(">qqq", seal.seal_id, seal.first_entry, seal.last_entry)
    return hashlib.sha256(PREFIX + numbers + seal.previous + seal.leaves).digest()


def leaf_of(line: str) -> bytes:
    """The hash of one entry."""
    return hashlib.sha256(line.encode()).digest()


def link_faults(seal: Seal, before: Seal | None) -> list[Fault]:
    """Where a seal does not stand on the one before it (None: it is the first), or not on its own content."""
    number, last, previous = (before.seal_id, before.last_entry, before.hash) if before else (0, 0, FIRST)
    if seal.seal_id != number + 1:
        missing = (
            f"seal {number + 1} is" if seal.seal_id == number + 2 else f"seals {number + 1} to {seal.seal_id - 1} are"
        )
        return [Fault(seal.seal_id, f"{missing} gone: nothing proves what was before seal {seal.seal_id}")]
    found = []
    if seal.rule != RULE:
        found.append(
            Fault(seal.seal_id, f"seal {seal.seal_id} was made by rule {seal.rule}, which this version does not know")
        )
    if seal.previous != previous:
        found.append(Fault(seal.seal_id, f"seal {seal.seal_id} does not stand on the hash of the seal before it"))
    if seal.first_entry != last + 1:
        what = f"seal {seal.seal_id} begins with entry {seal.first_entry}, the one before it ended with {last}"
        found.append(Fault(seal.seal_id, what))
    if hash_of(seal) != seal.hash:
        found.append(
            Fault(seal.seal_id, f"the hash of seal {seal.seal_id} is not that of its content: the seal was changed")
        )
    return found


def entry_faults(seal: Seal, lines: Sequence[tuple[int, str]]) -> list[Fault]:
    """Every entry of the seal's range that was changed, deleted, put in or exchanged since; by number."""
    number = seal.seal_id
    if len(seal.leaves) % LEAF.size:
        return [Fault(number, f"the leaves of seal {number} are cut off: the seal was changed")]
    sealed: dict[int, bytes] = dict(LEAF.iter_unpack(seal.leaves))
    now = dict(lines)
    if seal.leaves == b"".join(LEAF.pack(entry, leaf_of(line)) for entry, line in lines):
        return []
    changed = {entry for entry in sealed.keys() & now.keys() if leaf_of(now[entry]) != sealed[entry]}
    exchanged = _exchanged(sealed, now, changed)
    found = [
        Fault(number, f"ledger entry {one} is not there: it was deleted after seal {number} was made", one)
        for one in sealed.keys() - now.keys()
    ]
    found += [
        Fault(number, f"ledger entry {one} was put in after seal {number} was made", one)
        for one in now.keys() - sealed.keys()
    ]
    found += [
        Fault(
            number,
            f"ledger entry {one} holds what was entry {exchanged[one]} when seal {number} was made: they were exchanged"
            if one in exchanged
            else f"ledger entry {one} was changed after seal {number} was made",
            one,
        )
        for one in changed
    ]
    return sorted(found, key=lambda fault: fault.entry_id or 0)


def _exchanged(sealed: Mapping[int, bytes], now: Mapping[int, str], changed: set[int]) -> dict[int, int]:
    """Changed entries that hold what was sealed under another number: number -> that number."""
    if len(changed) > SWAPS_MOST:
        return {}
    return {
        one: other
        for one, other in permutations(sorted(changed), 2)
        if leaf_of(now[one].replace(f"[{one}, ", f"[{other}, ", 1)) == sealed[other]
    }
