"""The signer kind `keystore`: an encrypted JSON file, version 3 (geth, eth-account, MetaMask exports)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from chains.errors import SignerError
from chains.signers.local_key import LocalKey
from chains.signers.secret_file import read_secret


def load_keystore(path: Path, *, password_file: Path) -> LocalKey:
    """The key in the keystore at `path`, opened with the first line of `password_file`.

    Takes as long as the file's key derivation asks for, about a second; call it at start only.
    Raises: SignerError, which names the file and never the password or the key.
    """
    password, warning = read_secret(password_file)
    return open_keystore(path, password=password.rstrip("\r\n"), warning=warning)


def open_keystore(path: Path, *, password: str, warning: str | None = None) -> LocalKey:
    """The key in the keystore at `path`. Raises SignerError."""
    # Imported here: it takes over a second, and only who uses a keystore should wait.
    from eth_account import Account

    text, _ = read_secret(path)
    keystore = _parse(text, path)
    try:
        secret = bytes(Account.decrypt(keystore, password))
    except (KeyError, TypeError, AttributeError, NotImplementedError, OverflowError, MemoryError):
        raise SignerError(f"{path}: a keystore with missing or impossible fields") from None
    except ValueError as error:
        # The library tells a wrong password by its text alone; both texts are harmless to show.
        if "MAC" in str(error):
            raise SignerError(f"{path}: the password does not open it") from None
        raise SignerError(f"{path}: a keystore with missing or impossible fields") from None
    if len(secret) != 32:
        raise SignerError(f"{path}: holds {len(secret)} bytes, and a private key has 32")
    key = LocalKey(secret, warning=warning)
    stated = keystore.get("address")
    if isinstance(stated, str) and stated and "0x" + stated.lower().removeprefix("0x") != key.address:
        raise SignerError(f"{path}: holds the key of another address than it states")
    return key


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        keystore = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise SignerError(f"{path}: not a JSON object") from None
    # Version 4 files hold BLS keys of validators, whose bytes would make a key of another address.
    if keystore.get("version") != 3:
        raise SignerError(f"{path}: expected a keystore of version 3, found {_version(keystore)}")
    return keystore


def _version(keystore: dict[str, Any]) -> str:
    version = keystore.get("version")
    return f"version {version}" if isinstance(version, int) else "none"
