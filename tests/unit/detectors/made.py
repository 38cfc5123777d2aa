"""Intents, transfers and facts for the tests of detectors: plain ones, and any at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from chains.types import NATIVE, TokenUse, Transfer
from detectors.records import Expectation, Intent, TransferFacts

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WALLET, PAYEE, THIEF, STRANGER = "0xaa", "0xbb", "0xcc", "0xdd"
USDC, FAKE_USDC = "0x01", "0x02"
CHAIN = "eip155:1"


def intent(
    payout_id: str = "p1",
    *,
    version: int = 1,
    account: str = "acme",
    wallet: str | None = WALLET,
    contract: str = USDC,
    destination: str = PAYEE,
    amount: int = 100,
    expectation: Expectation = Expectation.MAYBE_ONE,
    created_at: datetime = NOON,
    confirmed_at: datetime | None = None,
    expected_repeat_of: str | None = None,
) -> Intent:
    return Intent(
        payout_id=payout_id,
        version=version,
        account=account,
        chain_id=CHAIN,
        wallet=wallet,
        contract=contract,
        destination=destination,
        amount=amount,
        expectation=expectation,
        created_at=created_at,
        confirmed_at=confirmed_at,
        expected_repeat_of=expected_repeat_of,
    )


def transfer(
    *,
    tx_id: str = "0xf1",
    position: int = 1,
    wallet: str = WALLET,
    contract: str = USDC,
    destination: str = PAYEE,
    amount: int = 100,
    tx_sender: str = WALLET,
) -> Transfer:
    return Transfer(tx_id, position, wallet, contract, destination, amount, tx_sender, 7, "0xb7", NOON)


def facts(
    seen: Transfer | None = None,
    *,
    wallet_signs: bool = True,
    listed: bool = True,
    attempted: Intent | None = None,
    paid_already: str | None = None,
    equals: tuple[Intent, ...] = (),
) -> TransferFacts:
    seen = seen or transfer()
    return TransferFacts(
        transfer=seen,
        chain_id=CHAIN,
        wallet_signs=wallet_signs,
        listed=listed,
        sent_by_wallet=seen.tx_sender == seen.wallet,
        attempted=attempted,
        paid_already=paid_already,
        equals=equals,
    )


def use(*, value: str = "7", tx_id: str = "0xf1", succeeded: bool = True) -> TokenUse:
    return TokenUse(WALLET, value, tx_id, succeeded, 21_000, THIEF, 5, 7, "0xb7", NOON)


_addresses = st.sampled_from([WALLET, PAYEE, THIEF, STRANGER])
_contracts = st.sampled_from([NATIVE, USDC, FAKE_USDC])
_amounts = st.sampled_from([0, 1, 99, 100, 10**30])

any_intent = st.builds(
    intent,
    st.sampled_from(["p1", "p2", "p3"]),
    version=st.integers(1, 3),
    wallet=st.none() | _addresses,
    contract=_contracts,
    destination=_addresses,
    amount=_amounts,
    expectation=st.sampled_from(Expectation),
    created_at=st.integers(-2000, 2000).map(lambda s: NOON + timedelta(seconds=s)),
    confirmed_at=st.none() | st.just(NOON),
    expected_repeat_of=st.none() | st.just("p9"),
)

any_transfer = st.builds(
    transfer,
    tx_id=st.sampled_from(["0xf1", "0xf2"]),
    position=st.integers(0, 3),
    wallet=_addresses,
    contract=_contracts,
    destination=_addresses,
    amount=_amounts,
    tx_sender=_addresses,
)

any_facts = st.builds(
    facts,
    any_transfer,
    wallet_signs=st.booleans(),
    listed=st.booleans(),
    attempted=st.none() | any_intent,
    paid_already=st.none() | st.sampled_from(["0xf1", "0xf9"]),
    equals=st.lists(any_intent, max_size=3).map(tuple),
)
