"""The section `alerts`: who is told, and how loud it must be for that."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from daemon.config.available import of_known_kind
from daemon.config.fields import HttpUrl, ListOf, Name, Section, setting
from daemon.config.secrets import Secret, refusal

PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
SHORTEST_WEBHOOK_SECRET = 16  #: characters

MinSeverity = Literal["warning", "error", "critical"]
_MIN_SEVERITY = "Incidents below it are stored and shown, and not told here."


class Receiver(Section):
    """What every receiver has."""

    name: Name = setting("", reason="How it is called in metrics and deliveries; its kind unless said otherwise.")
    min_severity: MinSeverity = setting("warning", reason=_MIN_SEVERITY)

    @model_validator(mode="before")
    @classmethod
    def _kind_is_the_name(cls, value: object) -> object:
        if isinstance(value, dict) and value.get("name") is None:
            return {**value, "name": value.get("kind")}
        return value


class PagerDutyConfig(Receiver):
    """PagerDuty, Events API v2."""

    kind: Literal["pagerduty"] = setting(reason="Events API v2.")
    routing_key: Secret = setting(outside="secret", reason="The integration key of the service that is paged.")
    url: HttpUrl = setting(
        Secret(PAGERDUTY_URL), outside="open", reason="Where events go; accounts in the EU have another host."
    )
    events: ListOf[Literal["incident"]] = setting(("incident",), min_length=1, reason="People are paged for incidents.")


def _long_enough(secret: Secret) -> Secret:
    if len(secret.reveal()) < SHORTEST_WEBHOOK_SECRET:
        fix = "Make one with: openssl rand -base64 32"
        raise refusal("a shorter secret", f"at least {SHORTEST_WEBHOOK_SECRET} characters", fix)
    return secret


class WebhookConfig(Receiver):
    """A webhook of your own, signed as Standard Webhooks says."""

    kind: Literal["webhook"] = setting(reason="Standard Webhooks, signed with HMAC-SHA256.")
    url: HttpUrl = setting(outside="open", reason="Where it is posted to. No redirect is followed.")
    secret: Annotated[Secret, AfterValidator(_long_enough)] = setting(
        outside="secret", reason="The key of the signature, `whsec_` and base64, or any text."
    )
    events: ListOf[Literal["incident", "payout"]] = setting(
        ("incident",), min_length=1, reason="`payout` tells each step of each payout too."
    )


AlertConfig = PagerDutyConfig | WebhookConfig

#: One entry of `alerts`. A kind that this version does not have is refused before its keys are looked at.
AnyAlert = Annotated[
    Annotated[AlertConfig, Field(discriminator="kind")], BeforeValidator(of_known_kind("kind of receiver"))
]
