"""The signer kind `private_key_file`: 64 hexadecimal digits in a file."""

from __future__ import annotations

import re
from pathlib import Path

from chains.errors import SignerError
from chains.signers.local_key import LocalKey
from chains.signers.secret_file import read_secret

_FORM = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})", re.ASCII)


def load_key_file(path: Path) -> LocalKey:
    """The key in `path`, with or without 0x, white space around it tolerated.

    Raises: SignerError, which names the file and says what was found, never the content.
    """
    text, warning = read_secret(path)
    return LocalKey(parse_key(text, source=str(path)), warning=warning)


def parse_key(text: str, *, source: str) -> bytes:
    """The 32 bytes of a key written as hexadecimal text. Raises SignerError, which names `source`."""
    word = text.strip()
    match = _FORM.fullmatch(word)
    if match is None:
        raise SignerError(f"{source}: expected 64 hexadecimal digits, found {_what(word)}")
    secret = bytes.fromhex(match[1])
    if not any(secret):
        raise SignerError(f"{source}: the key is zero")
    return secret


def _what(word: str) -> str:
    """What the text looks like, told without any of it."""
    if not word:
        return "nothing"
    if word.startswith("{"):
        return "JSON (for a keystore use `kind: keystore`)"
    if len(word.split()) >= 12:
        return "several words (a seed phrase is not accepted; export the private key)"
    return f"{len(word)} characters"
