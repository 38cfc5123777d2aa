"""Fingerprints: equal exactly when two orders mean the same payment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from daemon.payouts.fingerprint import RULE, Meant, RuleUnknown, differing, fingerprint

MEANT = Meant("eip155:1", "0xa0", "0xd1", 100, "default", None, "usdc")


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("contract", "0xa1", "asset"),
        ("destination", "0xd2", "destination"),
        ("amount", 101, "amount"),
        ("account", "other", "account"),
        ("wallet", "0xe1", "wallet"),
        ("chain_id", "eip155:2", "network"),
    ],
)
def test_each_field_that_moves_money_changes_it_and_is_named(field: str, value: object, named: str) -> None:
    other = replace(MEANT, **{field: value})  # type: ignore[arg-type]

    assert fingerprint(other) != fingerprint(MEANT)
    assert differing(MEANT, other) == (named,)


def test_an_assets_name_is_a_label_and_changes_nothing() -> None:
    renamed = replace(MEANT, unit="usd coin")

    assert fingerprint(renamed) == fingerprint(MEANT)
    assert differing(MEANT, renamed) == ()


def test_one_asset_on_two_networks_differs_in_the_network_alone() -> None:
    elsewhere = replace(MEANT, chain_id="eip155:2", contract="0xff")

    assert differing(MEANT, elsewhere) == ("network",)


def test_no_two_lists_of_fields_share_a_text() -> None:
    assert fingerprint(replace(MEANT, account='a","b')) != fingerprint(replace(MEANT, account="a", wallet="b"))
    assert fingerprint(replace(MEANT, wallet="None")) != fingerprint(MEANT)


def test_rule_1_never_changes_because_stored_payouts_are_compared_by_it() -> None:
    assert fingerprint(MEANT, 1).hex() == "4db10828298ad7469963b934aa47897e80ba663708ce5708e6b0dcbc9d2741e8"


def test_a_rule_of_a_later_release_is_not_guessed() -> None:
    with pytest.raises(RuleUnknown):
        fingerprint(MEANT, RULE + 1)
