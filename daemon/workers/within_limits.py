"""Limits in front of one wallet's signature: what is above one waits its turn, and nothing behind it waits along."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from daemon.payouts.gate import Waits
from daemon.payouts.policy import Act, Over, Scope, Spend, Tally, Terms
from daemon.store import limits, versions
from daemon.store.orders import SWEEP
from daemon.store.queries import Connection
from daemon.store.versions import Candidate, Key

#: When to look again: once the window has freed something, and not much later, for a failure gives its share back.
LEAST_S, MOST_S = 1.0, 30.0
ELSEWHERE_S = 2.0  #: for the chain's other wallets to take what is above the limit of this one


class WithinLimits:
    """The limits as they are about one wallet."""

    def __init__(self, terms: Terms, wallet_id: int, *, alone: bool) -> None:
        """`terms` are the whole deployment's; `alone`: no other wallet could pay instead."""
        self._terms = terms.at_signing
        self._wallet_id = wallet_id
        self._alone = alone

    def spend_of(self, candidate: Candidate) -> Spend | None:
        """What limits count of a payment from this wallet; a sweep is none."""
        if candidate.kind == SWEEP:
            return None
        return Spend(
            unit_id=candidate.unit_id,
            amount=candidate.amount,
            destination=candidate.destination,
            account=candidate.account,
            wallet_id=self._wallet_id,
        )

    async def tally(self, connection: Connection, spends: Sequence[Spend | None]) -> Tally:
        """What decides over these spends; their windows are locked until the end of the transaction."""
        counted = [spend for spend in spends if spend is not None]
        return await limits.tally(connection, Act.SIGNED, self._terms, counted)

    async def look_ahead(self, connection: Connection, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that look as if they fit. The others are put off before the network is asked: they may be thousands."""
        spends = [self.spend_of(candidate) for candidate in candidates]
        counted = [spend for spend in spends if spend is not None]
        tally = await limits.outlook(connection, Act.SIGNED, self._terms, counted)
        within: list[Candidate] = []
        above: list[tuple[Key, Over]] = []
        for candidate, spend in zip(candidates, spends, strict=True):
            over = tally.over(spend) if spend is not None else None
            if over is not None:
                above.append((candidate.key, over))
                continue
            if spend is not None:
                tally.take(spend)
            within.append(candidate)
        await self.hold_back(connection, above)
        return within

    async def hold_back(self, connection: Connection, above: Sequence[tuple[Key, Over]]) -> None:
        """These wait for a limit; the next look is when there can be room."""
        groups: defaultdict[float, list[Key]] = defaultdict(list)
        for key, over in above:
            groups[self._seconds_of(over)].append(key)
        for seconds, keys in groups.items():
            await versions.put_off(connection, keys, waits_for=Waits.LIMIT.value, seconds=seconds)

    def _seconds_of(self, over: Over) -> float:
        if over.limit.scope is Scope.WALLET and not self._alone:
            return ELSEWHERE_S
        return min(MOST_S, max(LEAST_S, MOST_S if over.frees_s is None else over.frees_s))
