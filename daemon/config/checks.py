"""What no section can see alone: names that must meet, and things that must not be there twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from daemon.config.available import closest
from daemon.config.echo import describe
from daemon.config.errors import Problem
from daemon.config.finality import PRESETS, preset_of_chain
from daemon.config.model import Config
from daemon.config.wallets import Keystore, PrivateKeyFile, WalletConfig
from daemon.payouts.amounts import AmountWrong, parse_amount

#: Chain ids that development tools use; the only ones on which a key that everybody knows may sign.
DEVELOPMENT_CHAIN_IDS = frozenset({1337, 31337})


def cross_problems(config: Config) -> list[Problem]:
    """Everything wrong between the sections, in the order of the file."""
    return [
        *_listeners(config),
        *_tokens(config),
        *_chains(config),
        *_assets(config),
        *_wallets(config),
        *_wallet_addresses(config),
        *_key_files(config),
        *_policy(config),
        *_receivers(config),
    ]


def _again(names: Iterable[tuple[str, str]], *, fix: str = "") -> Iterator[Problem]:
    """A problem for each (path, name) whose name, compared without case, came before."""
    seen: dict[str, str] = {}
    for path, name in names:
        first = seen.setdefault(name.casefold(), path)
        if first != path:
            yield Problem(path, f"the name of {first} once more", "a name of its own, compared without case", fix)


def _listeners(config: Config) -> Iterator[Problem]:
    http = config.http
    if http.metrics_listen is not None and http.metrics_listen == http.listen and http.listen.port != 0:
        yield Problem("http.metrics_listen", "the address of http.listen", "another one, or null")


def _tokens(config: Config) -> Iterator[Problem]:
    yield from _again((f"api_tokens.{index}.name", token.name) for index, token in enumerate(config.api_tokens))
    seen: dict[object, int] = {}
    for index, token in enumerate(config.api_tokens):
        first = seen.setdefault(token.token, index)
        if first != index:
            expected = "a token of its own: who holds it is told from it"
            yield Problem(f"api_tokens.{index}.token", f"the token of api_tokens.{first}", expected)


def _chains(config: Config) -> Iterator[Problem]:
    yield from _again((f"chains.{name}", name) for name in config.chains)
    seen: dict[int, str] = {}
    for name, chain in config.chains.items():
        first = seen.setdefault(chain.chain_id, name)
        path = f"chains.{name}.chain_id"
        if first != name:
            fix = "One chain under two names would have two nonce counters for one wallet."
            yield Problem(path, f"{chain.chain_id}, which is chains.{first} already", "each chain once", fix)
        public = preset_of_chain(chain.chain_id)
        if chain.is_devnet and public is not None:
            fix = "What a devnet signs would be valid there too."
            yield Problem(path, f"{chain.chain_id}, the id of {public}", "another one for a devnet: 31337", fix)
        preset = chain.finality.preset
        if preset is not None and public not in (None, preset):
            found = f"{preset} on chain id {chain.chain_id}, which is {public}"
            fix = f"The id of {preset} is {PRESETS[preset].chain_id}."
            yield Problem(f"chains.{name}.finality.preset", found, f"preset: {public}", fix)
        yield from _again((f"chains.{name}.nodes.{index}.name", node.name) for index, node in enumerate(chain.nodes))
        if chain.nodes and all(node.send_only for node in chain.nodes):
            yield Problem(f"chains.{name}.nodes", "only send_only nodes", "at least one that may be asked")


def _assets(config: Config) -> Iterator[Problem]:
    meaning: dict[str, tuple[str, str, int]] = {}
    for chain_name, chain in config.chains.items():
        contracts: dict[str, str] = {}
        for name, asset in chain.assets.items():
            path = f"chains.{chain_name}.assets.{name}"
            where = asset.contract or ("native" if asset.native else f"devnet:{name}")
            first = contracts.setdefault(where, name)
            if first != name:
                yield Problem(path, f"the same coin or contract as {first}", "each once a chain")
            known_at, spelling, decimals = meaning.setdefault(name.casefold(), (path, name, asset.decimals))
            if spelling != name:
                yield Problem(path, f"{known_at} in another spelling", f"one spelling everywhere: {spelling}")
            if decimals != asset.decimals:
                fix = "Balances are kept by name, so a name means one number of digits. Call one USDC_BSC, say."
                yield Problem(f"{path}.decimals", str(asset.decimals), f"{decimals} as in {known_at}", fix)
            if asset.deploy and not chain.is_devnet:
                yield Problem(f"{path}.contract", "devnet", "an address: only a devnet deploys a token")


def _wallets(config: Config) -> Iterator[Problem]:
    yield from _again((f"wallets.{name}", name) for name in config.wallets)
    for name, wallet in config.wallets.items():
        chain = config.chains.get(wallet.chain)
        if chain is None:
            known = tuple(config.chains)
            expected = f"one of: {', '.join(known)}" if known else "a chain, and `chains` has none"
            yield Problem(
                f"wallets.{name}.chain",
                f"unknown chain {describe(wallet.chain, 'chain')}",
                expected,
                closest(wallet.chain, known),
            )
        elif wallet.generated and not chain.is_devnet:
            expected = "an address: only a devnet makes keys"
            yield Problem(f"wallets.{name}.address", "devnet", expected, "Make a key yourself and fund it.")
        elif wallet.generated and not isinstance(wallet.signer, PrivateKeyFile):
            expected = "kind: private_key_file, whose file is made when it is missing"
            yield Problem(f"wallets.{name}.signer", f"{wallet.signer.kind} with address: devnet", expected)


def _wallet_addresses(config: Config) -> Iterator[Problem]:
    """A wallet is its chain and address, so each pair stands once; and keys that all the world has sign nowhere."""
    from chains.evm.dev_keys import is_well_known_dev_address  # a table that only the check needs

    seen: dict[tuple[str, str], str] = {}
    for name, wallet in config.wallets.items():
        path = f"wallets.{name}.address"
        chain = config.chains.get(wallet.chain)
        first = seen.setdefault((wallet.chain, _identity(wallet)), name)
        if first != name:
            found = f"the address or key file of wallets.{first} on the same chain"
            yield Problem(path, found, "each wallet once: two would count one nonce twice")
        if wallet.address is None or chain is None:
            continue
        if is_well_known_dev_address(wallet.address) and chain.chain_id not in DEVELOPMENT_CHAIN_IDS:
            found = f"a development key that everybody knows, on chain id {chain.chain_id}"
            yield Problem(path, found, "an address of your own", "Funds sent there are taken within a block.")
        if any(asset.contract == wallet.address for asset in chain.assets.values()):
            yield Problem(path, "the contract of a configured asset", "a wallet")


def _identity(wallet: WalletConfig) -> str:
    if wallet.address is not None:
        return wallet.address
    return str(wallet.signer.path) if isinstance(wallet.signer, PrivateKeyFile) else f"?{wallet.name}"


def _key_files(config: Config) -> Iterator[Problem]:
    for name, wallet in config.wallets.items():
        signer = wallet.signer
        if isinstance(signer, PrivateKeyFile | Keystore) and not wallet.generated and not signer.path.is_file():
            fix = "Paths are relative to the folder of the configuration file."
            yield Problem(f"wallets.{name}.signer.path", "no file there", "a file with the wallet's key", fix)


def _policy(config: Config) -> Iterator[Problem]:
    for index, address in enumerate(config.policy.block):
        if address in config.policy.allow:
            yield Problem(f"policy.block.{index}", "an address that policy.allow has too", "it in one of them")
    seen: dict[tuple[object, ...], str] = {}
    for index, limit in enumerate(config.policy.limits):
        path = f"policy.limits.{index}"
        yield from _asset_amount(config, path, limit.asset, "amount", limit.amount)
        what = limit.scope, limit.asset.casefold(), limit.window_s, limit.on_exceed
        first = seen.setdefault(what, path)
        if first != path:
            expected = "each once; amount and count stand in one limit"
            yield Problem(path, f"scope, asset, window_s and on_exceed of {first} once more", expected)
    for index, approval in enumerate(config.policy.approval):
        path = f"policy.approval.{index}"
        yield from _asset_amount(config, path, approval.asset, "above", approval.above)
        first = seen.setdefault((approval.asset.casefold(), approval.window_s), path)
        if first != path:
            yield Problem(path, f"asset and window_s of {first} once more", "each once")


def _asset_amount(config: Config, path: str, name: str, key: str, amount: str | None) -> Iterator[Problem]:
    """Is the asset one that some chain has, and the amount one of it?"""
    known = {
        asset: config.chains[chain].assets[asset] for chain in config.chains for asset in config.chains[chain].assets
    }
    asset = next((one for spelling, one in known.items() if spelling.casefold() == name.casefold()), None)
    if asset is None:
        expected = f"one of: {', '.join(known)}" if known else "an asset of a chain, and no chain has any"
        yield Problem(
            f"{path}.asset", f"unknown asset {describe(name, 'asset')}", expected, closest(name, tuple(known))
        )
    elif amount is not None and amount != "0":
        units = parse_amount(amount, asset.decimals)
        if isinstance(units, AmountWrong):
            yield Problem(f"{path}.{key}", describe(amount, key), f"an amount of {name}: {units.detail}")


def _receivers(config: Config) -> Iterator[Problem]:
    fix = "Two receivers of one kind need a name each."
    yield from _again(((f"alerts.{index}.name", alert.name) for index, alert in enumerate(config.alerts)), fix=fix)
