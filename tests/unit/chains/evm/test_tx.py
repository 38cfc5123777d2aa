"""The hand-written transaction bytes, against eth_account and against hostile input."""

from __future__ import annotations

import coincurve
import pytest
from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from hypothesis import example, given
from hypothesis import strategies as st

from chains.errors import AddressMalformed, PayloadRefused
from chains.evm import rlp
from chains.evm.address import show_address
from chains.evm.tx import (
    CURVE_ORDER,
    NONCE_MAX,
    TYPE_2,
    Tx,
    assemble,
    payload_of,
    read_payload,
    read_signed,
    read_transfer_data,
    signing_hash,
    transfer_data,
)
from chains.signers.local_key import LocalKey

uint64 = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x100])
uint256 = st.integers(0, 2**256 - 1) | uint64
addresses = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())
secrets = st.integers(1, CURVE_ORDER - 1).map(lambda number: number.to_bytes(32, "big"))


@st.composite
def txs(draw: st.DrawFn) -> Tx:
    tip, max_fee = sorted((draw(uint256), draw(uint256)))
    return Tx(
        chain_id=draw(st.integers(1, 2**63 - 1)),
        nonce=draw(st.integers(0, NONCE_MAX)),
        tip=tip,
        max_fee=max_fee,
        gas_limit=draw(st.integers(1, 2**64 - 1)),
        to=draw(addresses),
        value=draw(uint256),
        data=draw(st.binary(max_size=200)),
    )


def as_dict(tx: Tx) -> dict[str, object]:
    return {
        "type": 2,
        "chainId": tx.chain_id,
        "nonce": tx.nonce,
        "maxPriorityFeePerGas": tx.tip,
        "maxFeePerGas": tx.max_fee,
        "gas": tx.gas_limit,
        "to": show_address(tx.to),
        "value": tx.value,
        "data": tx.data,
        "accessList": (),
    }


PLAIN = Tx(chain_id=1, nonce=0, tip=1, max_fee=2, gas_limit=21000, to="0x" + "11" * 20, value=1)
KEY = LocalKey(b"\x01" * 32)


@given(txs(), secrets)
def test_payload_hash_and_signed_bytes_equal_eth_accounts(tx: Tx, secret: bytes) -> None:
    key = LocalKey(secret)
    theirs = Account.from_key(secret).sign_transaction(as_dict(tx))

    payload = payload_of(tx)
    ours = assemble(payload, key.sign(signing_hash(payload)), wallet=key.address)

    assert signing_hash(payload) == TypedTransaction.from_dict(as_dict(tx)).hash()
    assert ours.raw == bytes(theirs.raw_transaction)
    assert ours.tx_id == "0x" + bytes(theirs.hash).hex()


@given(txs(), secrets)
def test_signed_bytes_read_back_to_the_same_transaction_signer_and_hash(tx: Tx, secret: bytes) -> None:
    key = LocalKey(secret)
    payload = payload_of(tx)
    signed = assemble(payload, key.sign(signing_hash(payload)), wallet=key.address)

    read = read_signed(signed.raw)

    assert (read.tx, read.sender, read.tx_id) == (tx, key.address, signed.tx_id)
    assert read_payload(payload) == tx


@given(txs(), secrets)
def test_a_high_s_is_turned_into_the_low_one_and_gives_the_same_bytes(tx: Tx, secret: bytes) -> None:
    key = LocalKey(secret)
    payload = payload_of(tx)
    low = key.sign(signing_hash(payload))
    high = low[:32] + (CURVE_ORDER - int.from_bytes(low[32:64], "big")).to_bytes(32, "big") + bytes((1 - low[64],))

    assert assemble(payload, high, wallet=key.address) == assemble(payload, low, wallet=key.address)


def test_signed_bytes_with_a_high_s_are_refused_when_read() -> None:
    payload = payload_of(PLAIN)
    signature = KEY.sign(signing_hash(payload))
    s = CURVE_ORDER - int.from_bytes(signature[32:64], "big")
    items = rlp.decode(payload[1:])
    assert isinstance(items, list)
    tail = [rlp.integer(1 - signature[64]), signature[:32].lstrip(b"\0"), rlp.integer(s)]

    with pytest.raises(PayloadRefused, match="low form"):
        read_signed(TYPE_2 + rlp.encode([*items, *tail]))


def test_a_signature_of_another_wallet_is_never_accepted() -> None:
    payload = payload_of(PLAIN)

    with pytest.raises(PayloadRefused, match="expected 0x22"):
        assemble(payload, KEY.sign(signing_hash(payload)), wallet="0x" + "22" * 20)


def test_a_signature_over_another_payload_is_never_accepted() -> None:
    other = payload_of(Tx(chain_id=1, nonce=1, tip=1, max_fee=2, gas_limit=21000, to=PLAIN.to, value=1))

    with pytest.raises(PayloadRefused):
        assemble(payload_of(PLAIN), KEY.sign(signing_hash(other)), wallet=KEY.address)


@given(st.binary(max_size=70) | st.binary(min_size=65, max_size=65))
@example(bytes(65))
@example(b"\xff" * 64 + b"\0")
def test_no_signature_made_of_noise_is_accepted_or_crashes(noise: bytes) -> None:
    with pytest.raises(PayloadRefused):
        assemble(payload_of(PLAIN), noise, wallet=KEY.address)


@given(st.data())
def test_signed_bytes_changed_anywhere_are_refused_or_say_something_else(data: st.DataObject) -> None:
    payload = payload_of(PLAIN)
    signed = assemble(payload, KEY.sign(signing_hash(payload)), wallet=KEY.address)
    at = data.draw(st.integers(0, len(signed.raw) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != signed.raw[at]))
    changed = signed.raw[:at] + bytes((byte,)) + signed.raw[at + 1 :]

    try:
        read = read_signed(changed)
    except PayloadRefused:
        return

    assert read.tx_id != signed.tx_id
    assert (read.tx, read.sender) != (PLAIN, KEY.address)


@given(st.binary(max_size=300))
def test_noise_read_as_a_transaction_is_refused_and_never_crashes(noise: bytes) -> None:
    for data in (noise, TYPE_2 + noise):
        with pytest.raises(PayloadRefused):
            read_signed(data)


@pytest.mark.parametrize(
    "change",
    [
        {"chain_id": 0},
        {"nonce": -1},
        {"nonce": NONCE_MAX + 1},
        {"gas_limit": 0},
        {"gas_limit": 2**64},
        {"max_fee": 2**256},
        {"tip": 3},
        {"value": -1},
        {"value": 2**256},
        {"to": "0x" + "AA" * 20},
    ],
)
def test_numbers_no_chain_accepts_are_refused(change: dict[str, int]) -> None:
    good = {"chain_id": 1, "nonce": 0, "tip": 1, "max_fee": 2, "gas_limit": 21000, "to": PLAIN.to, "value": 1}

    with pytest.raises(PayloadRefused):
        Tx(**{**good, **change})  # type: ignore[arg-type]


def test_a_destination_that_is_no_address_is_refused() -> None:
    with pytest.raises(AddressMalformed):
        Tx(chain_id=1, nonce=0, tip=1, max_fee=2, gas_limit=21000, to="", value=1)


def test_an_access_list_is_refused_when_read() -> None:
    items = rlp.decode(payload_of(PLAIN)[1:])
    assert isinstance(items, list)
    items[8] = [[b"\x11" * 20, []]]

    with pytest.raises(PayloadRefused, match="access list"):
        read_payload(TYPE_2 + rlp.encode(items))


@given(addresses, uint256)
def test_transfer_calldata_is_what_it_says_and_reads_back(destination: str, amount: int) -> None:
    data = transfer_data(destination, amount)

    assert data.hex() == "a9059cbb" + "0" * 24 + destination[2:] + f"{amount:064x}"
    assert read_transfer_data(data) == (destination, amount)


@pytest.mark.parametrize(
    "spoil", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: b"\0" + d[1:], lambda d: d[:4] + b"\1" + d[5:]]
)
def test_calldata_that_is_not_exactly_a_transfer_reads_as_none(spoil: object) -> None:
    assert callable(spoil)

    assert read_transfer_data(spoil(transfer_data(PLAIN.to, 5))) is None


def test_an_amount_beyond_256_bits_is_refused() -> None:
    with pytest.raises(PayloadRefused):
        transfer_data(PLAIN.to, 2**256)


items = st.recursive(st.binary(max_size=80), lambda inner: st.lists(inner, max_size=4), max_leaves=10)


def depth(item: rlp.Item) -> int:
    return 0 if isinstance(item, bytes) else 1 + max(map(depth, item), default=0)


@given(items)
def test_rlp_decodes_what_it_encodes(item: rlp.Item) -> None:
    encoded = rlp.encode(item)
    try:
        decoded = rlp.decode(encoded)
    except PayloadRefused:
        assert depth(item) > rlp.DEPTH_MAX
        return

    assert decoded == item


@given(st.binary(max_size=120))
def test_rlp_accepts_nothing_but_the_canonical_form(noise: bytes) -> None:
    try:
        decoded = rlp.decode(noise)
    except PayloadRefused:
        return

    assert rlp.encode(decoded) == noise


def test_the_keys_of_the_curve_library_and_ours_agree_on_the_address() -> None:
    assert KEY.address == Account.from_key(b"\x01" * 32).address.lower()
    assert coincurve.PrivateKey(b"\x01" * 32).public_key is not None
