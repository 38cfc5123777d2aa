"""The section `wallets`: the addresses that pay, and whose key signs for them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from daemon.config.available import empty_until, of_known_kind
from daemon.config.chains import DEVNET
from daemon.config.fields import ADDED, EvmAddress, LocalPath, Name, Section, added, setting
from daemon.config.secrets import Secret


class PrivateKeyFile(Section):
    """A file with the key in hexadecimal, with or without 0x. For development and small amounts."""

    kind: Literal["private_key_file"] = setting(reason="A file that holds the key in clear.")
    path: LocalPath = setting(
        reason="Where it lies; readable by the daemon alone. With `address: devnet` it is made when it is missing."
    )


class Keystore(Section):
    """An encrypted key file, JSON version 3, as geth and most wallets write it."""

    kind: Literal["keystore"] = setting(reason="A file that holds the key, encrypted with a password.")
    path: LocalPath = setting(reason="Where it lies.")
    password: Secret = setting(outside="secret", reason="The password that opens it.")


class NoSigner(Section):
    """Nobody here holds the key: the wallet is watched, never signed for."""

    kind: Literal["none"] = setting(reason="Watch-only: no key, full detection.")


SignerConfig = PrivateKeyFile | Keystore | NoSigner


def _none(value: object) -> object:
    return {"kind": "none"} if value == "none" else value


_AnySigner = Annotated[
    Annotated[SignerConfig, Field(discriminator="kind")],
    BeforeValidator(of_known_kind("kind of signer")),
    BeforeValidator(_none),
]


class WalletConfig(Section):
    """A wallet: a route that a payout can take. It *is* its chain and address; the name is a label."""

    name: str = added("name")
    chain: Name = setting(reason="A name under `chains`.")
    address: EvmAddress | None = setting(
        reason="Its address, or `devnet`: the one of the key that a local chain makes and funds."
    )
    generated: bool = added("generated")
    signer: _AnySigner = setting(reason="Who signs: {kind: private_key_file | keystore, …}, or none.")
    max_in_flight: int = setting(
        16, unit="payouts", ge=1, le=1000, reason="Signed and not yet mined at one time. Nodes keep few per sender."
    )
    retired: bool = setting(
        False, reason="Watched and re-sent, but nothing new is signed: the only way to take a wallet out of use."
    )

    @model_validator(mode="before")
    @classmethod
    def _devnet(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        if "provider" in value:
            empty_until("wallets of a provider")(value["provider"] or "provider")
        generated = value.get("address") == DEVNET
        return {**value, ADDED + "generated": generated, **({"address": None} if generated else {})}

    @property
    def signs(self) -> bool:
        """Do we hold its key?"""
        return not isinstance(self.signer, NoSigner)

    @property
    def known_address(self) -> str:
        """The address in canonical spelling. Requires that a generated one is known (`Config.with_devnet`)."""
        assert self.address is not None, "the address of a devnet's wallet is known once its key is made"
        return self.address
