"""The section `chains`: which chains there are, whom to ask about them, and what is paid on them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import ceil
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, model_validator

from chains.settings import FeeSettings, NodeSettings, RailSettings
from chains.types import NATIVE
from daemon.config.available import of_known_kind
from daemon.config.echo import describe
from daemon.config.fields import (
    ADDED,
    EvmAddress,
    HttpUrl,
    ListOf,
    Name,
    Section,
    WebSocketUrl,
    added,
    named,
    setting,
)
from daemon.config.finality import PRESETS, FinalityConfig, preset_of_chain
from daemon.config.secrets import refusal

DEVNET = "devnet"  #: Stands for what a local node brings: its address, a generated key, a deployed token.
DEVNET_BLOCK_S = 1.0
BLIND_S = 10.0  #: On quick chains a wallet's reading may lag by this long before nothing more is signed.
NATIVE_DECIMALS = 18  #: Every EVM chain counts its own coin in wei.
LARGEST_CHAIN_ID = 2**63 - 37  #: EIP-2294; larger ones do not fit a signature's v everywhere


class NodeConfig(Section):
    """A node that is asked and sent to."""

    name: Name = setting(reason="How it is called in metrics, logs and evidence.")
    http: HttpUrl = setting(outside="open", reason="Its JSON-RPC endpoint. Never shown: providers put keys into it.")
    ws: WebSocketUrl | None = setting(
        None, outside="open", reason="Its WebSocket endpoint, for speed. Without one, blocks are polled."
    )
    send_only: bool = setting(False, reason="Takes transactions and is never asked for facts (a private relay).")

    @property
    def settings(self) -> NodeSettings:
        """The node as a rail takes it, URLs in clear."""
        ws = self.ws.reveal() if self.ws is not None else None
        return NodeSettings(self.name, self.http.reveal(), ws, self.send_only)


class AssetConfig(Section):
    """A coin or token that may be paid. Its name means the same decimals on every chain."""

    name: str = added("name")
    native: bool = setting(False, reason="The chain's own coin.")
    contract: EvmAddress | None = setting(
        None, reason="The token's contract, or `devnet`: one that the local node deploys at its first start."
    )
    deploy: bool = added("deploy")
    decimals: int = setting(
        NATIVE_DECIMALS,
        unit="digits",
        ge=0,
        le=36,
        reason="Checked against the chain at start. Needed for tokens: 6 read as 18 pays 10¹² times too much.",
    )

    @model_validator(mode="before")
    @classmethod
    def _devnet(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        deploy = value.get("contract") == DEVNET
        return {**value, ADDED + "deploy": deploy, "contract": None if deploy else value.get("contract")}

    @model_validator(mode="after")
    def _native_or_token(self) -> AssetConfig:
        token = self.contract is not None or self.deploy
        if token == self.native:
            found = "both native: true and a contract" if token else "neither native: true nor a contract"
            raise refusal(found, "one of both")
        if token and "decimals" not in self.model_fields_set:
            raise refusal("a token without decimals", "decimals: as its contract says, 6 for USDC on most chains")
        if self.native and self.decimals != NATIVE_DECIMALS:
            raise refusal(str(self.decimals), f"{NATIVE_DECIMALS} for a chain's own coin, or nothing", key="decimals")
        return self

    @property
    def contract_id(self) -> str:
        """The contract as rows and rails know it; NATIVE for the chain's own coin."""
        assert self.native or self.contract is not None, "the token of a devnet has a contract once it is deployed"
        return self.contract if self.contract is not None else NATIVE


class FeesConfig(Section):
    """What may be paid for inclusion."""

    bump_after_blocks: int = setting(
        3,
        unit="blocks",
        ge=1,
        le=10_000,
        reason="Read without a transaction of ours, before it bids more: where the market asks for it, or a node "
        "refused it.",
    )
    max_fee_gwei: float = setting(
        300.0,
        unit="gwei per gas",
        gt=0,
        le=1_000_000,
        reason="The cap. What needs more waits; what is signed goes on being sent.",
    )
    max_fee_share_of_payout: float | None = setting(
        None,
        unit="share, 0 to 1",
        gt=0,
        le=1,
        reason="The most that the fee may reach as a part of a payout in the chain's own coin. Null: no such limit.",
    )

    @property
    def settings(self) -> FeeSettings:
        """The limits as a rail takes them, in wei."""
        max_fee = int(Decimal(str(self.max_fee_gwei)) * 10**9)
        return FeeSettings(self.bump_after_blocks, max_fee, self.max_fee_share_of_payout)


def _watch_from(value: object) -> object:
    if value == "now" or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63):
        return value
    raise refusal(describe(value, "watch_from"), "`now` or the number of a block")


class ChainConfig(Section):
    """A chain."""

    name: str = added("name")
    kind: Literal["evm"] = setting(reason="How it is spoken to.")
    chain_id: int = setting(
        ge=1, le=LARGEST_CHAIN_ID, reason="Checked on every node at start: signatures count on this chain alone."
    )
    nodes: ListOf[NodeConfig] = setting(
        reason="Whom to ask: a list, two or more on purpose. Or `devnet`: a local node is started (a block a second), "
        "the generated keys are funded, the token is deployed."
    )
    is_devnet: bool = added("is_devnet")
    finality: FinalityConfig = setting(reason="When a payment counts as paid, and when as dead.")
    poll_s: float = setting(
        1.0, unit="seconds", ge=0.05, le=600, reason="How often new blocks are looked for, besides the subscription."
    )
    watch_from: Annotated[int | Literal["now"], BeforeValidator(_watch_from)] = setting(
        "now", unit="block", reason="Where watching begins. The first start's choice is stored and stands."
    )
    max_blind_blocks: int | None = setting(
        None,
        unit="blocks",
        ge=1,
        le=100_000,
        reason="Nothing new is signed while a wallet's reading lags the head by more. "
        "Null: 2, on chains that are quicker than 2 s a block as many as 10 s bring.",
    )
    assets: Annotated[Mapping[Name, AssetConfig], BeforeValidator(named), AfterValidator(MappingProxyType)] = setting(
        MappingProxyType({}), reason="What may be paid, by the name that requests use."
    )
    fees: FeesConfig = setting(FeesConfig(), reason="What may be paid for inclusion.")

    @model_validator(mode="before")
    @classmethod
    def _devnet(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        nodes = value.get("nodes", ...)
        if isinstance(nodes, str) and nodes != DEVNET:
            raise refusal(describe(nodes, "url"), "`devnet` or a list of {name, http, ws}", key="nodes")
        if nodes == []:
            raise refusal("an empty list", "`devnet` or at least one {name, http, ws}", key="nodes")
        extra = {ADDED + "is_devnet": nodes == DEVNET}
        return {**value, **extra, "nodes": []} if nodes == DEVNET else {**value, **extra}

    @property
    def blind_blocks(self) -> int:
        """How far a wallet's reading may lag before nothing more is signed, worked out."""
        if self.max_blind_blocks is not None:
            return self.max_blind_blocks
        preset = self.finality.preset or preset_of_chain(self.chain_id)
        block_s = DEVNET_BLOCK_S if self.is_devnet else PRESETS[preset].block_s if preset else None
        return 2 if block_s is None or block_s >= 2 else ceil(BLIND_S / block_s)

    def rail_settings(self, nodes: tuple[NodeSettings, ...] = ()) -> RailSettings:
        """The chain as a rail takes it. `nodes` are those of a devnet, once it is started.

        Requires that every token has its contract: on a devnet `Config.with_devnet` comes first.
        """
        contracts = tuple(asset.contract_id for asset in self.assets.values() if not asset.native)
        return RailSettings(
            name=self.name,
            chain_id=self.chain_id,
            nodes=nodes or tuple(node.settings for node in self.nodes),
            paid=self.finality.paid,
            dead=self.finality.dead.mark,
            contracts=contracts,
            fees=self.fees.settings,
            poll_s=self.poll_s,
        )


#: One entry of `chains`. A kind that this version does not have is refused before its keys are looked at.
AnyChain = Annotated[ChainConfig, BeforeValidator(of_known_kind("kind of chain"))]
