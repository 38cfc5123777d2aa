"""What of a value may be shown in a message: enough to find the mistake, never a secret.

Someone will paste a private key under the wrong name. So a long text is never shown, nor is
anything under a name that sounds like a secret or a URL, and keys of mappings count as texts.
"""

from __future__ import annotations

import re

LONGEST_SHOWN = 23  #: characters; API keys and private keys are longer
LONGEST_NAME_SHOWN = 32  #: characters; names of chains and wallets may be as long, keys of clouds have 40 and more
SECRET_WORDS = frozenset(
    {"apikey", "credential", "dsn", "http", "key", "mnemonic", "passphrase", "password", "secret", "seed", "token"}
    | {"uri", "url", "ws"}
)
_ENVIRONMENT_NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
_DSN_PASSWORD = re.compile(r"(?<=://)([^/@?#]*?):[^/?#]*@")
_DSN_QUERY = re.compile(r"([?&](?:password|sslpassword)=)[^&]*", re.IGNORECASE)


def sounds_secret(key: str) -> bool:
    """Is a value under `key` one that must not be shown, whatever it is?"""
    return any(word.rstrip("s") in SECRET_WORDS or word in SECRET_WORDS for word in re.split(r"[^a-z]+", key.lower()))


def describe(value: object, key: str) -> str:
    """`value`, found under `key`, as it may stand in a message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int | float | str):
        return _scalar(value, key)
    return "something else"


def _scalar(value: float | str, key: str) -> str:
    text = str(value)
    sort = "text" if isinstance(value, str) else "number"
    if text == "":
        return "an empty text"
    if sounds_secret(key) or len(text) > LONGEST_SHOWN:
        return f"a {sort} of {len(text)} characters (not shown)"
    return repr(value)


def show_key(key: str, longest: int = LONGEST_NAME_SHOWN) -> str:
    """A key of a mapping as part of a path; hidden when it is too long to be a name, or breaks the line."""
    return key if len(key) <= longest and key.isprintable() else f"<key of {len(key)} characters>"


def show_environment_name(name: str) -> str:
    """The name of an environment variable; hidden when it looks more like the secret itself."""
    plain = _ENVIRONMENT_NAME.fullmatch(name) and ("_" in name or len(name) <= LONGEST_SHOWN)
    return name if plain and len(name) <= 64 else f"<{len(name)} characters>"


def mask_dsn(dsn: str) -> str:
    """A PostgreSQL DSN with its passwords replaced; all else stays readable."""
    return _DSN_QUERY.sub(r"\1***", _DSN_PASSWORD.sub(r"\1:***@", dsn))
