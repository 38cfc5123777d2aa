"""The bodies that the API takes: every field named, nothing else let in, errors as JSON pointers."""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from daemon.api.problems import Problem
from daemon.api.strict_json import Number, escaped, unstorable
from daemon.payouts.amounts import TEXT_MAX, form_problem
from daemon.store.orders import SWEEP

METADATA_MOST = 20  #: pairs
BATCH_MOST = 1000  #: payouts of one request
#: Of an idempotency key, taken literally. A header loses the spaces around its value, so that a key with some in a
#: body would be another one when the same order is repeated by itself.
KEY_FORM = r"^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$"
VERSION_MOST = 999_999_999
NUMBER_MOST = 32  #: characters of a number that is read; 1e0 is 1, and 1e999999999 is not looked at more closely
UUID_FORM = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")  #: Python reads many more forms
HOUSE = "house:"  #: begins the names of the system's own accounts
#: What `form_problem` lets through, for those who read the schema; a test compares the two.
AMOUNT_FORM = r"^([1-9][0-9]{0,77}(\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*)$"

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
    if UUID_FORM.fullmatch(text) is None:
        raise ValueError("expected the id of a payout, a UUID")
    return str(UUID(text))


def _pairs(metadata: dict[str, str]) -> dict[str, str]:
    if len(metadata) > METADATA_MOST:
        raise ValueError(f"expected at most {METADATA_MOST} pairs, found {len(metadata)}")
    return metadata


def _whole(value: object) -> object:
    """A number without a fraction, however JSON spells it: 1, 1.0 and 1e0 are one."""
    if isinstance(value, Number) and len(value.text) <= NUMBER_MOST:
        with suppress(InvalidOperation):  # an exponent beyond all bounds
            number = Decimal(value.text)
            if 1 <= number <= VERSION_MOST and number == number.to_integral_value():
                return int(number)
    raise ValueError("expected a whole number from 1 on")


Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Account = Annotated[
    Name,
    AfterValidator(_account),
    Field(json_schema_extra={"not": {"type": "string", "pattern": f"^{HOUSE}"}}),
]
Amount = Annotated[
    str,
    AfterValidator(_amount),
    Field(json_schema_extra={"pattern": AMOUNT_FORM, "maxLength": TEXT_MAX, "examples": ["12.50"]}),
]
Key = Annotated[str, StringConstraints(pattern=KEY_FORM)]
Reference = Annotated[str, StringConstraints(max_length=255)]
Prose = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
PayoutId = Annotated[str, AfterValidator(_uuid), WithJsonSchema({"type": "string", "format": "uuid"})]
Version = Annotated[
    int, BeforeValidator(_whole), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": VERSION_MOST})
]
Metadata = Annotated[
    dict[
        Annotated[str, StringConstraints(min_length=1, max_length=40)],
        Annotated[str, StringConstraints(max_length=500)],
    ],
    AfterValidator(_pairs),
    Field(json_schema_extra={"maxProperties": METADATA_MOST}),
]


class Body(BaseModel):
    """A request's body. A member that is null counts as absent."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class PayoutBody(Body):
    """POST /payouts. A sweep moves our own money and names no account, which is checked with the caller's rights."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "required": ["kind", "account"],
                "properties": {"kind": {"const": SWEEP}, "account": {"type": "string"}},
            }
        }
    )

    asset: Name
    network: Name
    destination: Name
    amount: Amount
    account: Account | None = None
    wallet: Name | None = None
    reference: Reference | None = None
    metadata: Metadata = {}
    expected_repeat_of: PayoutId | None = None
    kind: Literal["payout", "sweep"] = "payout"


class BatchItem(PayoutBody):
    """One payout of POST /payouts/batch: an order, and the key that a single one has in its header."""

    idempotency_key: Key


class BatchBody(Body):
    """POST /payouts/batch. Each payout in it is a `BatchItem`, checked by itself: a broken one spoils no other."""

    payouts: Annotated[list[Any], Field(min_length=1, max_length=BATCH_MOST)]


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


#: What the validator of `OutcomeBody` lets through, for those who read the schema.
_OUTCOMES: Any = [
    {"properties": {"outcome": {"const": "paid"}, "tx_hash": {"type": "string"}}, "required": ["tx_hash"]},
    {"properties": {"outcome": {"const": "not_paid"}, "tx_hash": {"type": "null"}}},
]


class OutcomeBody(ReasonBody):
    """POST /payouts/{id}/resolve: what became of it, and by which transaction where it was paid."""

    model_config = ConfigDict(json_schema_extra={"oneOf": _OUTCOMES})

    outcome: Literal["paid", "not_paid"]
    tx_hash: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None

    @model_validator(mode="after")
    def _transaction_of_a_payment(self) -> OutcomeBody:
        if (self.outcome == "paid") != (self.tx_hash is not None):
            raise ValueError("expected tx_hash, the transaction that paid it, with the outcome paid, and with no other")
        return self


class AckBody(Body):
    """POST /incidents/{id}/ack: nothing need be said."""


class NoteBody(Body):
    """POST /incidents/{id}/notes."""

    text: Prose


class ResolveBody(Body):
    """POST /incidents/{id}/resolve."""

    resolution: Literal["explained", "expected_repeat", "false_positive", "recovered"]
    note: Prose | None = None


def checked(model: type[B], value: Any, *, at: str = "") -> B:
    """The body that this JSON value is. Raises Problem 400 with a pointer for everything wrong in it.

    `at` is the pointer to a value that stands inside of a body.
    """
    if not isinstance(value, dict):
        raise Problem("invalid_request", "expected a JSON object", errors=[(at, "expected an object")])
    # Of a batch, the names alone: each item is looked at by itself.
    errors = [*unstorable(dict.fromkeys(value) if model is BatchBody else value, at)]
    if not errors:
        members = {name: one for name, one in value.items() if one is not None or name not in model.model_fields}
        try:
            return model.model_validate(members)
        except ValidationError as error:
            errors = [(at + _pointer(one["loc"]), _said(one)) for one in error.errors(include_url=False)]
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
