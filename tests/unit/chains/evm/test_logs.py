"""Transfer logs: right ones are read, hostile ones are None, and none crashes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chains.evm.logs import (
    TRANSFER_TOPIC,
    TokenTransfer,
    block_filter,
    outgoing_topics,
    range_filter,
    subscription_filter,
    topic_of,
    transfer_of,
)
from chains.evm.wire import WireLog

WALLET, PAYEE, TOKEN = "0x" + "a1" * 20, "0x" + "b2" * 20, "0x" + "C3" * 20
HASH = "0x" + "00" * 32


def log(**changes: object) -> WireLog:
    fields: dict[str, object] = {
        "address": TOKEN,
        "topics": [TRANSFER_TOPIC, topic_of(WALLET), topic_of(PAYEE)],
        "data": f"0x{5:064x}",
        "blockHash": HASH,
        "transactionHash": HASH,
    }
    return msgspec.convert({**fields, **changes}, WireLog)


@given(st.integers(0, 2**256 - 1))
def test_a_transfer_log_says_contract_source_destination_and_amount(amount: int) -> None:
    assert transfer_of(log(data=f"0x{amount:064x}")) == TokenTransfer(TOKEN.lower(), WALLET, PAYEE, amount)


def test_the_spelling_of_hexadecimal_digits_does_not_matter() -> None:
    upper = [TRANSFER_TOPIC.upper().replace("X", "x"), topic_of(WALLET).upper().replace("X", "x"), topic_of(PAYEE)]

    assert transfer_of(log(topics=upper)) == transfer_of(log())


@pytest.mark.parametrize(
    "changes",
    [
        {"topics": []},
        {"topics": [TRANSFER_TOPIC]},
        {"topics": [TRANSFER_TOPIC, topic_of(WALLET)]},
        {"topics": [TRANSFER_TOPIC, topic_of(WALLET), topic_of(PAYEE), topic_of(PAYEE)], "data": "0x"},
        {"topics": [HASH, topic_of(WALLET), topic_of(PAYEE)]},
        {"topics": [TRANSFER_TOPIC, WALLET, PAYEE]},
        {"topics": [TRANSFER_TOPIC, "0x" + "1" * 64, topic_of(PAYEE)]},
        {"topics": [TRANSFER_TOPIC, topic_of(WALLET) + "0", topic_of(PAYEE)]},
        {"topics": [TRANSFER_TOPIC, topic_of(WALLET), topic_of(PAYEE) + "\n"]},
        {"data": "0x"},
        {"data": ""},
        {"data": "0x" + "0" * 62},
        {"data": "0x" + "f" * 128},
        {"data": "0x" + "g" * 64},
        {"data": "0x" + "٣" * 64},
        {"removed": True},
    ],
)
def test_a_log_that_is_not_exactly_a_standing_transfer_is_none(changes: dict[str, object]) -> None:
    assert transfer_of(log(**changes)) is None


@given(st.lists(st.text(max_size=70), max_size=5), st.text(max_size=70), st.booleans())
def test_no_log_crashes_the_reader(topics: list[str], data: str, removed: bool) -> None:
    assert transfer_of(log(topics=topics, data=data, removed=removed)) is None


def test_filters_ask_for_transfers_out_of_the_wallets_in_every_contract() -> None:
    topics = [TRANSFER_TOPIC, ["0x" + "0" * 24 + "a1" * 20]]

    assert range_filter([WALLET], first=16, last=31) == {"fromBlock": "0x10", "toBlock": "0x1f", "topics": topics}
    assert block_filter([WALLET], block_hash=HASH) == {"blockHash": HASH, "topics": topics}
    assert subscription_filter([WALLET]) == {"topics": topics}


def test_a_filter_for_no_wallet_is_refused_because_it_would_match_all() -> None:
    with pytest.raises(ValueError, match="every wallet"):
        outgoing_topics([])
