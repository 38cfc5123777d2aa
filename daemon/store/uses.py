"""Uses of a wallet's token by transactions in blocks: facts for the detector of foreign uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chains.types import TokenUse
from daemon.store import events, incidents, tokens
from daemon.store.incidents import Desk
from daemon.store.queries import Connection, load
from daemon.store.versions import Key, intent_of
from detectors.foreign_nonce import foreign_nonce
from detectors.records import UseFacts

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A token of ours that a transaction used which we did not sign."""

    facts: UseFacts
    bound_to: Key | None  #: The version that holds this token, if any: it can be paid by it no more.


async def record(
    connection: Connection,
    *,
    chain_id: str,
    kind: str,
    wallet_ids: dict[str, int],
    uses: Sequence[TokenUse],
    node: str | None,
) -> list[Foreign]:
    """Note these uses in token order, by `node`'s reading; those that are new and not ours."""
    foreign: list[Foreign] = []
    for use in uses:
        wallet_id = wallet_ids.get(use.wallet)
        if wallet_id is None:
            continue
        row = await tokens.record_use(connection, wallet_id=wallet_id, kind=kind, use=use, node=node)
        if row is None or row["spent_by"] != "foreign" or not row["fresh"]:
            continue
        foreign.append(await _foreign(connection, chain_id, row["token_id"], use))
    return foreign


async def open_incident(connection: Connection, one: Foreign, *, desk: Desk) -> None:
    """Open the incident of a foreign use and stop the payout whose token it took, in this transaction."""
    for finding in foreign_nonce(one.facts):
        await incidents.open_finding(connection, finding, desk=desk, chain_id=one.facts.chain_id)
    if one.bound_to is not None:
        detail = f"its token {one.facts.use.value} was used by {one.facts.use.tx_id}, which payoutd did not sign"
        await events.to_review(connection, one.bound_to, reason="foreign_nonce", detail=detail, desk=desk)


async def _foreign(connection: Connection, chain_id: str, token_id: int, use: TokenUse) -> Foreign:
    """What the store knows by key about this use."""
    row = await SQL["holder"].one(connection, token_id)
    assert row is not None, "the token was just written"
    bound = row["payout_id"] is not None
    facts = UseFacts(
        use=use,
        chain_id=chain_id,
        signed_by_us=False,
        bound_to=intent_of(row) if bound else None,
        our_tx_ids=tuple(row["tx_ids"]),
    )
    return Foreign(facts, Key(row["payout_id"], row["version"]) if bound else None)
