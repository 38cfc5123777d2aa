"""Working off a freeze on one wallet: which nonces forgotten bytes may hold, and whether each is spent for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daemon.store import attempts, coverage, deployment, events, freezing, wallets
from daemon.store.attempts import Signed
from daemon.store.incidents import Desk
from daemon.store.queries import Connection, load
from daemon.store.versions import Key

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """How far one wallet is. `first_nonce` and `end_nonce` are None until its range was fixed."""

    next_nonce: int | None  #: None: not adopted
    max_in_flight_ever: int
    thawed: bool
    first_nonce: int | None
    end_nonce: int | None
    read_to: int | None
    final_to: int | None
    marks_s: float | None  #: since a daemon last read this chain's head
    freeze_is_final: bool  #: a block made after the freeze is final, and was read twice
    unexplained: bool  #: a transfer of it was read and not looked at yet
    mined: int  #: nonces of the range that a block has used
    settled: int  #: those that are spent for good
    foreign_uses: int  #: those that bytes used which are not ours, or not ours any more
    may_land: bool  #: some nonce below the end of the range is not spent for good


async def standing(connection: Connection, *, wallet_id: int) -> Standing:
    """How far this wallet is with the freeze of now."""
    row = await SQL["standing"].one(connection, wallet_id, coverage.FILTER)
    assert row is not None, "a wallet of the catalog is stored, and a frozen deployment has an identity"
    return Standing(**{name: row[name] for name in Standing.__slots__})


async def fill(
    connection: Connection,
    *,
    wallet_id: int,
    chain_id: str,
    kind: str,
    wanted: tuple[int, int],
    sign: Callable[[int, str], Signed],
) -> int:
    """Take every nonce of the range that is free, and store signed bytes that pay nobody; how many.

    `wanted` is the range (first, end), unless an earlier run fixed another. `sign` gives the attempt of a
    (token id, nonce). Nothing is done when the deployment is not frozen any more.
    """
    await wallets.lock(connection, wallet_ids=[wallet_id])
    await SQL["begin"].run(connection, wallet_id, *wanted)
    row = await SQL["range"].one(connection, wallet_id)
    if row is None:
        return 0
    fixed = (row["first_nonce"], row["end_nonce"])
    await SQL["take"].run(connection, wallet_id, kind, *fixed)
    bare = await SQL["bare"].rows(connection, wallet_id, kind, *fixed)
    signed = [sign(one["token_id"], one["value"]) for one in bare]
    if signed:
        await attempts.store(connection, chain_id=chain_id, signed=signed)
    return len(signed)


async def finish(connection: Connection, *, wallet_id: int) -> bool:
    """The wallet is worked off; False when meanwhile a nonce of it is not spent for good any more, or never was."""
    await wallets.lock(connection, wallet_ids=[wallet_id])
    now = await standing(connection, wallet_id=wallet_id)
    if now.end_nonce is None or now.may_land or now.unexplained:
        return False
    await SQL["thawed"].run(connection, wallet_id)
    return True


async def lift(connection: Connection, *, signing: Sequence[int], desk: Desk) -> list[str]:
    """Lift the freeze when every signing wallet was worked off; else the names of those that were not.

    In the same transaction: the identity is stored anew, the incidents of the freeze have recovered, and every
    stored order that equals an unexplained transfer goes into review, for this database may have forgotten
    that it paid it.
    """
    await wallets.lock(connection, wallet_ids=sorted(signing))
    left = [str(row["name"]) for row in await SQL["left"].rows(connection, list(signing))]
    if left:
        return left
    for row in await SQL["maybe_paid"].rows(connection):
        key = Key(row["payout_id"], row["version"])
        detail = (
            f"an unexplained transfer of the same asset, destination and amount: {row['tx_id']} in block {row['block']}"
        )
        await events.to_review(
            connection, key, reason="maybe_already_paid", detail=detail, desk=desk, chain_id=row["chain_id"]
        )
    await deployment.lift(connection, instance=desk.instance, identity=await deployment.identity(connection))
    await freezing.thawed(connection, desk=desk)
    return []
