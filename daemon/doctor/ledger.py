"""Read the whole ledger again: are the seals whole, are balances the sums of entries, is every reserve explained?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from daemon.doctor.reckoning import Reckoning
from daemon.doctor.report import Check, bad, note, ok
from daemon.doctor.seals import entry_faults, link_faults
from daemon.store import books, checkup, seals
from daemon.store.database import Database
from daemon.store.queries import Connection
from daemon.store.seals import Seal

PIECE = 10_000  #: entries read at a time
SHOWN_MOST = 20  #: faults of one sort that are named; the others are counted
SEALED_WITHIN_S = 300.0  #: an entry that is older and not sealed says that nobody seals
Progress = Callable[[int, int], None]  #: told how many of how many entries were read

TAMPERED = "somebody wrote past the database's rules: find out who, compare with a backup, trust no balance until then"
BUG = "release nothing by hand; compare with a backup, and report it"


@dataclass(slots=True)
class Pass:
    """One reading of the ledger."""

    expected: Mapping[int, str]  #: seals that somebody wrote down outside: number -> hash, hexadecimal
    reckoning: Reckoning = field(default_factory=Reckoning)
    faults: list[str] = field(default_factory=list)
    last: Seal | None = None
    anchors: dict[int, bool] = field(default_factory=dict)

    def take(self, found: Sequence[Seal], lines: Sequence[tuple[int, str]]) -> None:
        """Check these seals against the entries of all their ranges."""
        place = 0
        for one in found:
            begin = place
            while place < len(lines) and lines[place][0] <= one.last_entry:
                place += 1
            within = lines[begin:place]
            self.faults += map(str, [*link_faults(one, self.last), *entry_faults(one, within)])
            self.reckoning.take(within)
            if one.seal_id in self.expected:
                self.anchors[one.seal_id] = one.hash.hex() == self.expected[one.seal_id].lower()
            self.last = one


async def examine(
    db: Database, *, expected: Mapping[int, str], ledger_on: bool, progress: Progress = lambda _done, _all: None
) -> list[Check]:
    """Everything there is to say about the ledger. Reads all of it, piece by piece; changes nothing."""
    done = Pass(expected)
    number, total = await db.run(seals.extent)
    while (done.last.seal_id if done.last else 0) < number:
        before = done.last.seal_id if done.last else 0
        await db.run(partial(_piece, done=done))
        if done.last is None or done.last.seal_id == before:
            break
        progress(done.reckoning.entries, total)
    return await db.run(partial(_rest, done=done, ledger_on=ledger_on))


async def _piece(connection: Connection, *, done: Pass) -> None:
    """The next seals, and the entries of their ranges."""
    found = await seals.next_ones(connection, after=done.last.seal_id if done.last else 0, most=PIECE)
    if found:
        first = done.last.last_entry + 1 if done.last else 1
        done.take(found, await seals.lines(connection, first=first, last=found[-1].last_entry))


async def _rest(connection: Connection, *, done: Pass, ledger_on: bool) -> list[Check]:
    """What is not sealed yet, and everything compared with the balances of the same moment."""
    await checkup.hold_still(connection)
    sealed_to, sealed = done.last.last_entry if done.last else 0, done.reckoning.entries
    numbers = await seals.numbers(connection)
    if numbers is not None:
        done.faults += _strays(numbers, (await seals.watermark(connection)).drawn)
    while lines := await seals.tail(connection, after=sealed_to, most=PIECE):
        done.reckoning.take(lines)
        sealed_to = lines[-1][0]
    _, oldest_s = await seals.unsealed(connection)
    units = await books.units(connection)
    versions = await checkup.open_versions(connection)
    return [
        *_seals(done, sealed, oldest_s),
        *_anchors(done),
        *_some(
            "ledger balances",
            done.reckoning.faults + done.reckoning.balance_faults(await checkup.balances(connection), units),
            f"every balance is the sum of its entries ({done.reckoning.entries})",
            TAMPERED,
        ),
        *_some(
            "ledger reservations",
            done.reckoning.reservation_faults(versions, units),
            f"each of the {len(done.reckoning.open)} reservations has an open payout",
            BUG,
        ),
        *_unreserved(done.reckoning.without_reservation(versions), ledger_on),
    ]


def _strays(numbers: tuple[int, int], drawn: int) -> Iterator[str]:
    """Entries whose number the database has not given."""
    lowest, highest = numbers
    if lowest < 1:
        yield f"ledger entry {lowest} has a number that the database never gives: it was put in"
    if highest > drawn:
        yield f"ledger entry {highest} has a number that the database has not given yet: it was put in"


def _seals(done: Pass, sealed: int, oldest_s: float) -> list[Check]:
    """The chain, and what is too young for it."""
    young = done.reckoning.entries - sealed
    anchor = None if done.last is None else f"{done.last.seal_id}:{done.last.hash.hex()}"
    whole = f"{sealed} entries are as they were sealed; newest seal {anchor}" if anchor else "there is no seal yet"
    found = _some("ledger seals", done.faults, f"{whole}; {young} younger than the last seal", TAMPERED)
    if not done.faults:
        found = [replace(found[0], value=anchor)]
    if oldest_s > SEALED_WITHIN_S:
        said = f"{young} entries are younger than the last seal, the oldest of them for {oldest_s:.0f} s: nobody seals"
        found.append(bad("ledger seals", said, "run a daemon with the role detect, and look at its loop `seal`"))
    return found


def _anchors(done: Pass) -> Iterator[Check]:
    """What was written down outside, compared."""
    for number in sorted(done.expected):
        held = done.anchors.get(number)
        if held:
            yield ok("ledger anchor", f"history up to seal {number} is what it was when that hash was written down")
            continue
        what = "is not there" if held is None else "has another hash"
        yield bad(
            "ledger anchor",
            f"seal {number} {what}: the history before it was made anew, or it is another database",
            TAMPERED,
        )


def _unreserved(count: int, ledger_on: bool) -> Iterator[Check]:
    if count and ledger_on:
        said = f"{count} open payouts have no reservation: ordered while the ledger was off, or sweeps"
        yield note("ledger reservations", said)


def _some(about: str, faults: Sequence[str], fine: str, mend: str) -> list[Check]:
    """One line per fault, up to a bound; or the one that says that there is none."""
    if not faults:
        return [ok(about, fine)]
    lines = [bad(about, fault, mend) for fault in faults[:SHOWN_MOST]]
    if len(faults) > SHOWN_MOST:
        lines.append(bad(about, f"and {len(faults) - SHOWN_MOST} more of this sort", mend))
    return lines
