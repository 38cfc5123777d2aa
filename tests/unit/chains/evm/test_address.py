"""Addresses: which spellings are taken, and what is said of the others."""

from __future__ import annotations

import pytest
from eth_utils.address import to_checksum_address
from hypothesis import given
from hypothesis import strategies as st

from chains.errors import AddressChecksumWrong, AddressMalformed
from chains.evm.address import address_bytes, parse_address, show_address
from chains.evm.dev_keys import WELL_KNOWN_DEV_ADDRESSES, is_well_known_dev_address

RIGHT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
addresses = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())


@given(addresses)
def test_the_checksum_is_the_one_of_eth_utils_and_reads_back(address: str) -> None:
    shown = show_address(address)

    assert shown == to_checksum_address(address)
    assert parse_address(shown) == parse_address(address) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0x",
        RIGHT[:-1],
        RIGHT + "0",
        RIGHT[2:],
        "0X" + RIGHT[2:],
        RIGHT[:-1] + "g",
        RIGHT + "\n",
        " " + RIGHT,
        "0x" + "٣" * 40,
    ],
)
def test_a_wrong_length_or_alphabet_is_malformed(text: str) -> None:
    with pytest.raises(AddressMalformed):
        parse_address(text)
    with pytest.raises(AddressMalformed):
        address_bytes(text)
    assert show_address(text) == text


@pytest.mark.parametrize("text", [RIGHT[:3] + "9fD" + RIGHT[6:], "0x" + RIGHT[2:].upper(), RIGHT[:-1] + "7"])
def test_a_wrong_checksum_is_told_apart_from_a_malformed_address(text: str) -> None:
    with pytest.raises(AddressChecksumWrong):
        parse_address(text)


def test_the_first_account_of_every_development_tool_is_well_known_in_any_spelling() -> None:
    assert is_well_known_dev_address(RIGHT)
    assert is_well_known_dev_address("0x8626f6940e2eb28930efb4cef49b2d1f2c9c1199")
    assert not is_well_known_dev_address("0x" + "11" * 20)


def test_the_table_of_development_addresses_is_what_the_mnemonic_gives() -> None:
    from eth_account import Account

    Account.enable_unaudited_hdwallet_features()
    mnemonic = "test " * 11 + "junk"
    paths = [f"m/44'/60'/0'/0/{i}" for i in range(20)]

    derived = {Account.from_mnemonic(mnemonic, account_path=path).address.lower() for path in paths}

    assert derived <= WELL_KNOWN_DEV_ADDRESSES
