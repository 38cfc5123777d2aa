"""The bodies that the API takes: every field named, nothing else let in, errors as JSON pointers."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationError

from daemon.api.problems import Problem
from daemon.api.strict_json import Number, escaped, unstorable
from daemon.payouts.amounts import form_problem

METADATA_MOST = 20  #: pairs
WHOLE = re.compile("[1-9][0-9]{0,8}")
HOUSE = "house:"  #: begins the names of the system's own accounts

B = TypeVar("B", bound="Body")


def _amount(text: str) -> str:
    problem = form_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


def _account(name: str) -> str:
    if name.startswith(HOUSE):
        raise ValueError(f"a name that begins with {HOUSE} is the system's own")
    return name


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise ValueError("expected the id of a payout, a UUID") from None


def _pairs(metadata: dict[str, str]) -> dict[str, str]:
    if len(metadata) > METADATA_MOST:
        raise ValueError(f"expected at most {METADATA_MOST} pairs, found {len(metadata)}")
    return metadata


def _payout(kind: str) -> str:
    if kind != "payout":
        raise ValueError("expected payout: other kinds are not taken in by this version")
    return kind


def _whole(value: object) -> object:
    if isinstance(value, Number) and WHOLE.fullmatch(value.text):
        return int(value.text)
    raise ValueError("expected a whole number from 1 on")


Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Account = Annotated[Name, AfterValidator(_account)]
Amount = Annotated[str, AfterValidator(_amount)]
Reference = Annotated[str, StringConstraints(max_length=255)]
Prose = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
PayoutId = Annotated[str, StringConstraints(max_length=64), AfterValidator(_uuid)]
Version = Annotated[int, BeforeValidator(_whole)]
Metadata = Annotated[
    dict[
        Annotated[str, StringConstraints(min_length=1, max_length=40)],
        Annotated[str, StringConstraints(max_length=500)],
    ],
    AfterValidator(_pairs),
]


class Body(BaseModel):
    """A request's body. A member that is null counts as absent."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class PayoutBody(Body):
    """POST /payouts."""

    asset: Name
    network: Name
    destination: Name
    amount: Amount
    account: Account | None = None
    wallet: Name | None = None
    reference: Reference | None = None
    metadata: Metadata = {}
    expected_repeat_of: PayoutId | None = None
    kind: Annotated[str, AfterValidator(_payout)] = "payout"


class BookingBody(Body):
    """POST /accounts/{account}/credits and /debits."""

    asset: Name
    amount: Amount
    reference: Annotated[str, StringConstraints(min_length=1, max_length=255)]


class ReasonBody(Body):
    """POST /wallets/{name}/pause and /resume, and most acts over a payout."""

    reason: Prose


class RetryBody(ReasonBody):
    """POST /payouts/{id}/retry: which version has failed."""

    version: Version


class AckBody(Body):
    """POST /incidents/{id}/ack: nothing need be said."""


class NoteBody(Body):
    """POST /incidents/{id}/notes."""

    text: Prose


class ResolveBody(Body):
    """POST /incidents/{id}/resolve."""

    resolution: Literal["explained", "expected_repeat", "false_positive", "recovered"]
    note: Prose | None = None


def checked(model: type[B], value: Any) -> B:
    """The body that this JSON value is. Raises Problem 400 with a pointer for everything wrong in it."""
    if not isinstance(value, dict):
        raise Problem("invalid_request", "expected a JSON object", errors=[("", "expected an object")])
    errors = [*unstorable(value)]
    if not errors:
        members = {name: member for name, member in value.items() if member is not None}
        try:
            return model.model_validate(members)
        except ValidationError as error:
            errors = [(_pointer(one["loc"]), _said(one)) for one in error.errors(include_url=False)]
    summary = "; ".join(f"{pointer or '/'}: {detail}" for pointer, detail in errors[:3])
    raise Problem("invalid_request", f"the body is not as it should be: {summary}", errors=errors)


def _said(error: Any) -> str:
    """The message of one validation error; of our own, without pydantic's prefix."""
    if error["type"] == "string_type":
        return "expected a JSON string"
    if error["type"] == "extra_forbidden":
        return "this field is not known"
    if error["type"] == "missing":
        return "this field is required"
    return str(error["msg"]).removeprefix("Value error, ")


def _pointer(loc: tuple[int | str, ...]) -> str:
    return "".join(f"/{escaped(str(part))}" for part in loc if part != "[key]")
