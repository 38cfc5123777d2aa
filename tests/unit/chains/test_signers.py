"""Local signers: what they accept, and that nothing ever shows the key."""

from __future__ import annotations

import copy
import json
import pickle
import traceback
from pathlib import Path

import pytest
from eth_account import Account

from chains.errors import SignerError
from chains.signers.key_file import load_key_file
from chains.signers.keystore import load_keystore
from chains.signers.local_key import LocalKey

SECRET = bytes.fromhex("8f2a91c7" * 8)
ADDRESS = Account.from_key(SECRET).address.lower()


def write(path: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    "text", [SECRET.hex(), "0x" + SECRET.hex(), f" \n0X{SECRET.hex().upper()}\r\n", SECRET.hex() + "\n"]
)
def test_a_key_file_is_read_with_or_without_0x_and_with_white_space(tmp_path: Path, text: str) -> None:
    key = load_key_file(write(tmp_path / "key", text))

    assert key.address == ADDRESS
    assert key.warning is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "found nothing"),
        (SECRET.hex()[:-1], "found 63 characters"),
        (SECRET.hex()[:-1] + "g", "found 64 characters"),
        ('{"crypto": 1}', "kind: keystore"),
        ("abandon " * 12, "seed phrase"),
        ("0" * 64, "zero"),
        ("f" * 64, "order of the curve"),
        (b"\xff\xfe" * 10, "not UTF-8"),
        ("a" * 70_000, "longer than"),
    ],
)
def test_an_error_about_a_key_file_says_what_is_wrong_and_shows_nothing_of_it(
    tmp_path: Path, text: str | bytes, told: str
) -> None:
    path = write(tmp_path / "key", text)

    with pytest.raises(SignerError, match=told) as caught:
        load_key_file(path)

    shown = "".join(traceback.format_exception(caught.value))
    content = text.decode("latin-1") if isinstance(text, bytes) else text
    assert not content.strip() or content.strip()[:12] not in shown.replace("0" * 64, "")


def test_a_missing_key_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SignerError, match=r"absent: No such file"):
        load_key_file(tmp_path / "absent")


def test_a_key_file_that_everybody_may_read_gives_a_warning(tmp_path: Path) -> None:
    key = load_key_file(write(tmp_path / "key", SECRET.hex(), 0o644))

    assert key.warning is not None
    assert "chmod 600" in key.warning
    assert SECRET.hex() not in key.warning


def test_a_key_is_never_shown_copied_or_pickled() -> None:
    key = LocalKey(SECRET)

    assert SECRET.hex() not in f"{key!r} {key} {[key]}"
    assert "LocalKey(0x" in repr(key)
    for spread in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not copied"):
            spread(key)


def test_signing_is_deterministic_and_has_a_low_s() -> None:
    key = LocalKey(SECRET)

    signatures = {key.sign(b"\x07" * 32) for _ in range(5)}

    (signature,) = signatures
    assert len(signature) == 65
    assert signature[64] in (0, 1)
    assert int.from_bytes(signature[32:64], "big") <= (2**256 >> 1)


def keystore_text(**changes: object) -> str:
    document = Account.encrypt(SECRET, "pass phrase", kdf="pbkdf2", iterations=2)
    return json.dumps({**document, **changes})


def test_a_keystore_opens_with_the_password_in_its_file(tmp_path: Path) -> None:
    path = write(tmp_path / "keystore.json", keystore_text())
    password = write(tmp_path / "password", "pass phrase\n")

    assert load_keystore(path, password_file=password).address == ADDRESS


def test_a_scrypt_keystore_of_eth_account_opens_too(tmp_path: Path) -> None:
    document = Account.encrypt(SECRET, "pass phrase", kdf="scrypt", iterations=2)
    path = write(tmp_path / "keystore.json", json.dumps(document))
    password = write(tmp_path / "password", "pass phrase")

    assert load_keystore(path, password_file=password).address == ADDRESS


@pytest.mark.parametrize(
    ("text", "password", "told"),
    [
        (keystore_text(), "wrong", "password does not open"),
        ("not json", "x", "not a JSON object"),
        ("[1]", "x", "not a JSON object"),
        ('{"version": 3}', "x", "missing or impossible"),
        (keystore_text(version=4), "pass phrase", "found version 4"),
        (keystore_text(crypto={}), "pass phrase", "missing or impossible"),
        (keystore_text(crypto=7), "pass phrase", "missing or impossible"),
        (keystore_text(address="11" * 20), "pass phrase", "another address"),
    ],
)
def test_a_keystore_that_does_not_open_says_why_and_shows_no_password(
    tmp_path: Path, text: str, password: str, told: str
) -> None:
    path = write(tmp_path / "keystore.json", text)
    password_file = write(tmp_path / "password", password)

    with pytest.raises(SignerError, match=told) as caught:
        load_keystore(path, password_file=password_file)

    shown = "".join(traceback.format_exception(caught.value, chain=True))
    assert "pass phrase" not in shown.replace(keystore_text.__name__, "")
    assert SECRET.hex() not in shown
