"""Secrets: values that come from a file or the environment and that nothing prints."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from daemon.config.echo import describe, show_environment_name

LARGEST_SECRET = 64 * 1024  #: bytes of a secret's file
DEVNET_TOKEN_ENV = "PAYOUTD_TOKEN"  # noqa: S105 -- the name of a variable, not a secret
MASK = "***"


def refusal(found: str, expected: str, fix: str = "", *, key: str | None = None) -> PydanticCustomError:
    """An error that becomes a Problem as it is. `key` names the written key where the field has another name."""
    facts = {"found": found, "expected": expected, "fix": fix, "key": key}
    return PydanticCustomError("refused", "expected {expected}", facts)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where values from outside are looked for while a configuration is loaded."""

    base_dir: Path  #: Relative paths start here: the configuration file's own folder.
    environ: Mapping[str, str] = field(repr=False)
    devnet_token: Path | None = None  #: Where a local installation keeps the token that it made for itself.
    write: bool = True  #: May that token's file be made?


@dataclass(frozen=True, slots=True)
class Reference:
    """How a value from outside was written in the file: `token_env: NAME`, `token_file: path` or `token: value`."""

    key: str
    how: Literal["env", "file", "plain", "several"]
    written: object = field(repr=False)
    plain_allowed: bool = False


class Secret:
    """A text that is shown as `***` wherever it is printed; `reveal` gives it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Wrap `text`."""
        self._text = text

    def reveal(self) -> str:
        """The secret itself. For the place that uses it, never for a message."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret('{MASK}')"

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        """Itself: pydantic copies the defaults of fields."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be pickled: a pickle is a copy on its way somewhere."""
        raise TypeError("a Secret is not pickled")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Fields of this type are resolved through `Sources` when they are loaded."""
        return core_schema.with_info_plain_validator_function(
            _resolve, serialization=core_schema.plain_serializer_function_ser_schema(lambda _: MASK)
        )


def _resolve(value: object, info: ValidationInfo) -> Secret:
    if isinstance(value, Secret):
        return value
    assert isinstance(value, Reference), "Section turns every written value into a Reference"
    if value.how == "several":
        raise refusal(f"{value.written} together", "only one of them", key=value.key)
    if not isinstance(value.written, str) or not value.written:
        expected = "a text" if value.how == "plain" else f"the name of {_thing(value.how)}"
        raise refusal(describe(value.written, value.key), expected, key=value.key)
    if value.how == "plain" and not value.plain_allowed:
        fix = f"Write {value.key}_env: NAME or {value.key}_file: path instead."
        raise refusal("a secret in the configuration file", "a file or an environment variable", fix, key=value.key)
    assert isinstance(info.context, Sources), "a configuration is loaded through daemon.config.load"
    text = _fetch(value, value.written, info.context)
    if not text.isprintable():
        raise refusal("a value with control characters", "one line of text", key=value.key)
    return Secret(text)


def _thing(how: str) -> str:
    return "an environment variable" if how == "env" else "a file"


def _fetch(reference: Reference, written: str, sources: Sources) -> str:
    if reference.how == "plain":
        return written
    if reference.how == "file":
        return _from_file(reference, sources.base_dir / Path(written).expanduser())
    text = sources.environ.get(written, "").strip()
    if text:
        return text
    if written == DEVNET_TOKEN_ENV and sources.devnet_token is not None:
        return _devnet_token(reference, sources.devnet_token, write=sources.write)
    shown = show_environment_name(written)
    state = "is empty" if written in sources.environ else "is not set"
    raise refusal(
        f"environment variable {shown}, which {state}",
        "it to hold the secret",
        f"Set {shown} before the start.",
        key=reference.key,
    )


def _from_file(reference: Reference, path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_SECRET + 1)
        text = raw.decode("utf-8").strip()
    except OSError as error:
        fix = "Paths are relative to the folder of the configuration file."
        raise refusal(f"no readable file there ({error.strerror})", "a file", fix, key=reference.key) from error
    except UnicodeDecodeError:
        raise refusal("a file that is not text", "a text file in UTF-8", key=reference.key) from None
    if not text or len(raw) > LARGEST_SECRET:
        found = "a file that is too large" if text else "an empty file"
        raise refusal(found, "a file that holds the secret", key=reference.key)
    return text


def _devnet_token(reference: Reference, path: Path, *, write: bool) -> str:
    """The token that a local installation made for itself, made now if there is none.

    The file appears whole or not at all, and of two processes that make it at once both use one token.
    """
    if path.exists():
        return _from_file(reference, path)
    token = secrets.token_urlsafe(32)
    if not write:
        return token
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
        try:
            os.link(draft, path)
        except FileExistsError:
            return _from_file(reference, path)
        finally:
            draft.unlink()
    except OSError as error:
        fix = f"Set {DEVNET_TOKEN_ENV}, or make the data folder writable."
        found = f"{DEVNET_TOKEN_ENV} not set, and no file for a made one ({error.strerror})"
        raise refusal(found, "either", fix, key=reference.key) from error
    return token
