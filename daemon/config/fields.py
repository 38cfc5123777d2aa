"""What every section of the configuration is made of: strict, frozen fields that document themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic.fields import FieldInfo

from chains.errors import AddressChecksumWrong, AddressMalformed
from daemon.config.echo import describe
from daemon.config.secrets import Reference, Secret, Sources, refusal

#: Prefix of what the loader itself adds to a section. No YAML key of ours can begin with it.
ADDED = "\0"


def setting(
    default: Any = ..., *, reason: str, unit: str | None = None, outside: str | None = None, **bounds: Any
) -> Any:
    """A field with its unit, default and reason; docs/configuration.md and error messages show them.

    `outside` "secret": written as `<name>_env` or `<name>_file` only; "open": also as the plain value.
    """
    if isinstance(default, Mapping):  # pydantic cannot copy a read-only mapping, so it gets a maker of one
        return Field(default_factory=lambda: default, description=reason, **bounds)
    return Field(default, description=reason, json_schema_extra={"unit": unit, "outside": outside}, **bounds)


def added(name: str) -> Any:
    """A field that the loader fills: a section's own name, from the key that it stands under."""
    return Field(validation_alias=ADDED + name, description="", json_schema_extra={"added": True})


def extra_of(field: FieldInfo) -> Mapping[str, Any]:
    """What `setting` and `added` noted about a field."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def written_keys(field_name: str, field: FieldInfo) -> tuple[str, ...]:
    """The keys under which a field may be written in the file; none for what the loader adds."""
    extra = extra_of(field)
    if extra.get("added"):
        return ()
    if extra.get("outside"):
        plain = (field_name,) if extra["outside"] == "open" else ()
        return (*plain, f"{field_name}_env", f"{field_name}_file")
    return (field_name,)


class Section(BaseModel):
    """Base of every section: unknown keys refused, nothing converted, nothing changed after the start."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """Every key that may be written in this section."""
        return tuple(key for name, field in cls.model_fields.items() for key in written_keys(name, field))

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: object) -> object:
        """Turn `x_env`, `x_file` and `x` into one reference for `x`; take an empty section as its defaults."""
        if not isinstance(value, dict):
            return value
        gathered = dict(value)
        for name, field in cls.model_fields.items():
            extra = extra_of(field)
            if extra.get("outside"):
                _gather_reference(gathered, name, plain_allowed=extra["outside"] == "open")
            elif gathered.get(name, ...) is None and _is_section(field):
                del gathered[name]
        return gathered


def _is_section(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, Section)


def _gather_reference(gathered: dict[str, Any], name: str, *, plain_allowed: bool) -> None:
    forms = {name: "plain", f"{name}_env": "env", f"{name}_file": "file"}
    present = [key for key in forms if gathered.get(key) is not None and not isinstance(gathered[key], Secret)]
    if isinstance(gathered.get(name), Secret):
        return
    written = {key: gathered.pop(key, None) for key in forms}
    if len(present) == 1:
        key = present[0]
        gathered[name] = Reference(key, forms[key], written[key], plain_allowed)  # type: ignore[arg-type]
    elif present:
        gathered[name] = Reference(present[1], "several", " and ".join(present), plain_allowed)


def named(value: object) -> object:
    """Tell each section of a mapping the name that it stands under."""
    if not isinstance(value, dict):
        return value
    return {key: {ADDED + "name": key, **item} if isinstance(item, dict) else item for key, item in value.items()}


_Item = TypeVar("_Item")
#: YAML has lists; a frozen section holds tuples.
ListOf = Annotated[tuple[_Item, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]


def _plain_name(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,31}", value):
        fix = "Names stand in metrics, logs and paths."
        expected = "1 to 32 letters, digits and . _ + -, a letter or digit first"
        raise refusal(describe(value, "name"), expected, fix)
    return value


#: The name of a chain, node, asset, wallet, token or receiver.
Name = Annotated[str, BeforeValidator(_plain_name)]


def _path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    if not value or "\0" in value:
        raise refusal(describe(value, "path"), "a path")
    assert isinstance(info.context, Sources), "a configuration is loaded through daemon.config.load"
    return info.context.base_dir / Path(value).expanduser()


#: A path, relative to the folder of the configuration file; absolute once it is loaded.
LocalPath = Annotated[Path, BeforeValidator(_path)]


class Listen(NamedTuple):
    """An address to listen on."""

    host: str
    port: int  #: 0: any free one

    def __str__(self) -> str:
        """As it is written: an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _listen(value: object) -> object:
    if isinstance(value, Listen):
        return value
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})", value) if isinstance(value, str) else None
    if match is None or int(match[2]) > 65535:
        raise refusal(describe(value, "listen"), "host:port, such as 127.0.0.1:8080 or [::1]:8080")
    return Listen(match[1].strip("[]"), int(match[2]))


ListenOn = Annotated[Listen, BeforeValidator(_listen)]


def _url(*schemes: str) -> AfterValidator:
    def check(secret: Secret) -> Secret:
        expected = f"a URL that begins with {' or '.join(f'{scheme}://' for scheme in schemes)} and names a host"
        try:
            parts = urlsplit(secret.reveal())
            good = parts.scheme in schemes and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            good = False
        if not good or " " in secret.reveal():
            raise refusal("something else (not shown)", expected)
        return secret

    return AfterValidator(check)


#: URLs are secrets: those of nodes and receivers carry keys in their paths.
HttpUrl = Annotated[Secret, _url("http", "https")]
WebSocketUrl = Annotated[Secret, _url("ws", "wss")]


def travels_openly(url: Secret) -> bool:
    """Does this URL send its content unencrypted over a network?"""
    parts = urlsplit(url.reveal())
    return parts.scheme in {"http", "ws"} and not is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Is `host` this machine itself?"""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _evm_address(value: object) -> object:
    """The lower-case spelling. A mix of cases must be the right one."""
    from chains.evm.address import ZERO_ADDRESS, parse_address  # only who names an address loads a chain's code

    expected = "0x and 40 hexadecimal digits, in quotes"
    if not isinstance(value, str):
        raise refusal(describe(value, "address"), expected)
    try:
        address = parse_address(value)
    except AddressMalformed:
        raise refusal(describe(value, "address"), expected) from None
    except AddressChecksumWrong:
        fix = (
            "A digit is mistyped or its case was changed: copy it again from where it came, or write it in lower case."
        )
        raise refusal("an address whose checksum is wrong", "the mix of cases that fits its digits", fix) from None
    if address == ZERO_ADDRESS:
        raise refusal("the zero address", "an address that somebody holds")
    return address


#: An EVM address in canonical spelling: lower case. `chains.evm.address.show_address` gives the one for people.
EvmAddress = Annotated[str, BeforeValidator(_evm_address)]
