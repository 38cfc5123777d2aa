"""`payoutd check-config`: say what is wrong with the configuration, or what would run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any

from chains.evm.address import show_address
from chains.settings import ByDepth, Finality
from daemon.cli.options import add_config, config_of
from daemon.config.advice import warnings_of
from daemon.config.available import RUN_ROLES
from daemon.config.chains import ChainConfig
from daemon.config.errors import ConfigError
from daemon.config.model import Config
from daemon.config.wallets import WalletConfig
from daemon.payouts.policy import OF_SCOPE, Scope
from detectors.registry import load_all


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "check-config",
        help="check the configuration and print what would run",
        description="Checks the configuration, touching neither database nor network, and prints what would run. "
        "Exit code 0: it can be run; 1: it cannot; 2: there is no such file.",
    )
    add_config(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Check and print. Raises ConfigError, which the caller prints, unless JSON was asked for."""
    try:
        config = config_of(args, write=False)
    except ConfigError as error:
        if not args.json:
            raise
        problems = [
            {"path": problem.path, "found": problem.found, "expected": problem.expected, "fix": problem.fix}
            for problem in error.problems
        ]
        print(json.dumps({"valid": False, "problems": problems}, indent=2))
        return error.exit_code
    report = report_of(config)
    print(json.dumps(report, indent=2) if args.json else "\n".join(_lines(report)))
    return 0


def report_of(config: Config) -> dict[str, Any]:
    """What would run, as JSON says it. No secrets, no URLs."""
    metrics = config.http.metrics_listen
    return {
        "valid": True,
        "instance": config.instance,
        "fingerprint": config.fingerprint(),
        "roles": list(RUN_ROLES),
        "database": f"embedded, in {config.database.data_dir}"
        if config.database.is_embedded
        else config.database.shown,
        "listen": str(config.http.listen),
        "metrics_listen": str(metrics) if metrics is not None else None,
        "ledger": config.ledger.mode,
        "policy": _policy(config),
        "chains": [_chain(chain) for chain in config.chains.values()],
        "wallets": [_wallet(wallet) for wallet in config.wallets.values()],
        "api_tokens": [
            {"name": token.name, "account": token.account, "accounts": list(token.accounts), "roles": list(token.roles)}
            for token in config.api_tokens
        ],
        "detectors": [_detector(config, kind) for kind in type(config.detectors).model_fields],
        "receivers": [
            {"name": alert.name, "kind": alert.kind, "min_severity": alert.min_severity, "events": list(alert.events)}
            for alert in config.alerts
        ],
        "warnings": warnings_of(config),
    }


def _chain(chain: ChainConfig) -> dict[str, Any]:
    return {
        "name": chain.name,
        "kind": chain.kind,
        "chain_id": chain.chain_id,
        "nodes": "devnet" if chain.is_devnet else [node.name for node in chain.nodes],
        "paid": _finality(chain.finality.paid),
        "dead": _finality(chain.finality.dead.mark),
        "max_blind_blocks": chain.blind_blocks,
        "assets": {
            name: {
                "contract": None if asset.native else show_address(asset.contract) if asset.contract else "devnet",
                "decimals": asset.decimals,
            }
            for name, asset in chain.assets.items()
        },
    }


def _finality(mark: Finality) -> str:
    return f"{mark.confirmations} confirmations" if isinstance(mark, ByDepth) else f"tag {mark.tag}"


def _wallet(wallet: WalletConfig) -> dict[str, Any]:
    return {
        "name": wallet.name,
        "chain": wallet.chain,
        "address": show_address(wallet.address) if wallet.address else "devnet",
        "signer": wallet.signer.kind,
        "max_in_flight": wallet.max_in_flight,
        "retired": wallet.retired,
    }


def _policy(config: Config) -> dict[str, Any]:
    policy = config.policy
    return {
        "limits": [
            {
                "scope": limit.scope,
                "asset": limit.asset,
                "window_s": limit.window_s,
                "amount": limit.amount,
                "count": limit.count,
                "on_exceed": limit.on_exceed,
            }
            for limit in policy.limits
        ],
        "approval": [
            {"asset": approval.asset, "above": approval.above, "window_s": approval.window_s}
            for approval in policy.approval
        ],
        "allow": [show_address(address) for address in policy.allow],
        "block": [show_address(address) for address in policy.block],
    }


def _detector(config: Config, kind: str) -> dict[str, Any]:
    settings = config.detectors.of(kind)
    registered = load_all().get(kind)  # None where a loop opens the incident itself
    finds = registered.summary if registered is not None else type(config.detectors).model_fields[kind].description
    return {"kind": kind, "enabled": settings.enabled, "pause_wallet": settings.pauses, "finds": finds}


def _lines(report: dict[str, Any]) -> Iterable[str]:
    yield f"{report['instance']} can be run (fingerprint {report['fingerprint'][:12]})"
    yield f"  roles     {', '.join(report['roles'])}"
    yield f"  database  {report['database']}"
    yield f"  listens   {report['listen']}" + (
        f", metrics on {report['metrics_listen']}" if report["metrics_listen"] else ""
    )
    yield f"  ledger    {report['ledger']}"
    yield from _titled("chains", map(_chain_line, report["chains"]))
    yield from _titled("wallets", map(_wallet_line, report["wallets"]))
    yield from _titled("policy", _policy_lines(report["policy"]))
    yield from _titled("API tokens", map(_token_line, report["api_tokens"]))
    yield from _titled("detectors", map(_detector_line, report["detectors"]))
    yield from _titled("receivers", map(_receiver_line, report["receivers"]))
    yield from _titled("warnings", report["warnings"])


def _titled(title: str, lines: Iterable[str]) -> Iterable[str]:
    yield f"\n{title}"
    yield from [f"  {line}" for line in lines] or ["  none"]


def _chain_line(chain: dict[str, Any]) -> str:
    nodes = chain["nodes"] if isinstance(chain["nodes"], str) else ", ".join(chain["nodes"])
    assets = ", ".join(
        f"{name} ({asset['contract'] or 'native'}, {asset['decimals']})" for name, asset in chain["assets"].items()
    )
    return (
        f"{chain['name']}: {chain['kind']} {chain['chain_id']}, nodes {nodes}, paid at {chain['paid']}, "
        f"dead at {chain['dead']}, at most {chain['max_blind_blocks']} blocks blind, assets {assets or 'none'}"
    )


def _wallet_line(wallet: dict[str, Any]) -> str:
    address = "an address made at the first start" if wallet["address"] == "devnet" else wallet["address"]
    signer = "watch-only" if wallet["signer"] == "none" else f"signed by {wallet['signer']}"
    retired = ", retired" if wallet["retired"] else ""
    return f"{wallet['name']}: {address} on {wallet['chain']}, {signer}, {wallet['max_in_flight']} in flight{retired}"


def _policy_lines(policy: dict[str, Any]) -> Iterable[str]:
    for limit in policy["limits"]:
        most = [f"{limit['amount']} {limit['asset']}"] if limit["amount"] is not None else []
        most += [f"{limit['count']} payouts of {limit['asset']}"] if limit["count"] is not None else []
        where = OF_SCOPE[Scope(limit["scope"])]
        above = "is refused" if limit["on_exceed"] == "refuse" else "waits"
        yield f"at most {' and '.join(most)} {where} within {limit['window_s']:g} s; what is above {above}"
    for approval in policy["approval"]:
        above, window = f"{approval['above']} {approval['asset']}", f"{approval['window_s']:g} s"
        yield f"more than {above} to one destination within {window} needs a second person"
    if policy["allow"]:
        yield f"only to {', '.join(policy['allow'])}"
    if policy["block"]:
        yield f"never to {', '.join(policy['block'])}"


def _token_line(token: dict[str, Any]) -> str:
    accounts = [account for account in (token["account"], *token["accounts"]) if account]
    everyone = "admin" in token["roles"] and not token["accounts"]
    return (
        f"{token['name']}: {', '.join(token['roles'])}, accounts {'*' if everyone else ', '.join(accounts) or 'none'}"
    )


def _detector_line(detector: dict[str, Any]) -> str:
    state = "" if detector["enabled"] else " (off)"
    pauses = " Pauses the wallet." if detector["pause_wallet"] else ""
    return f"{detector['kind']}{state}: {detector['finds']}{pauses}"


def _receiver_line(receiver: dict[str, Any]) -> str:
    named = receiver["name"] if receiver["name"] == receiver["kind"] else f"{receiver['name']} ({receiver['kind']})"
    return f"{named}: {', '.join(receiver['events'])}, from {receiver['min_severity']} up"
