"""Addresses whose private keys everybody knows, because development tools print them.

Funds sent to one of these on a public chain are taken by bots within a block, so the daemon
refuses them off development chains. Addresses only; the keys are in the tools' own manuals.
"""

from __future__ import annotations

#: The first accounts of the default mnemonics, path m/44'/60'/0'/0/i, in lower case.
WELL_KNOWN_DEV_ADDRESSES = frozenset(
    {
        # anvil, hardhat: test test … junk
        "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
        "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
        "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc",
        "0x90f79bf6eb2c4f870365e785982e1f101e93b906",
        "0x15d34aaf54267db7d7c367839aaf71a00a2c6a65",
        "0x9965507d1a55bcc2695c58ba16fb37d819b0a4dc",
        "0x976ea74026e726554db657fa54763abd0c3a0aa9",
        "0x14dc79964da2c08b23698b3d3cc7ca32193d9955",
        "0x23618e81e3f5cdf7f54c3d65f7fbc0abf5b21e8f",
        "0xa0ee7a142d267c1f36714e4a8f75612f20a79720",
        "0xbcd4042de499d14e55001ccbb24a551f3b954096",
        "0x71be63f3384f5fb98995898a86b02fb2426c5788",
        "0xfabb0ac9d68b0b445fb7357272ff202c5651694a",
        "0x1cbd3b2770909d4e10f157cabc84c7264073c9ec",
        "0xdf3e18d64bc6a983f673ab319ccae4f1a57c7097",
        "0xcd3b766ccdd6ae721141f452c550ca635964ce71",
        "0x2546bcd3c84621e976d8185a91a922ae77ecec30",
        "0xbda5747bfd65f08deb54cb465eb87d40e51b197e",
        "0xdd2fd4581271e230360230f9337d5c0430bf44c0",
        "0x8626f6940e2eb28930efb4cef49b2d1f2c9c1199",
        # ganache --deterministic: myth like bonus …
        "0x90f8bf6a479f320ead074411a4b0e7944ea8c9c1",
        "0xffcf8fdee72ac11b5c542428b35eef5769c409f0",
        "0x22d491bde2303f2f43325b2108d26f1eaba1e32b",
        "0xe11ba2b4d45eaed5996cd0823791e0c93114882d",
        "0xd03ea8624c8c5987235048901fb614fdca89b117",
        "0x95ced938f7991cd0dfcb48f0a06a40fa1af46ebc",
        "0x3e5e9111ae8eb78fe1cc3bb8915d5d461f3ef9a9",
        "0x28a8746e75304c0780e011bed21c72cd78cd535e",
        "0xaca94ef8bd5ffee41947b4585a84bda5a3d3da6e",
        "0x1df62f291b2e969fb0849d99d9ce41e2f137006e",
        # truffle develop: candy maple cake …
        "0x627306090abab3a6e1400e9345bc60c78a8bef57",
        "0xf17f52151ebef6c7334fad080c5704d77216b732",
        "0xc5fdf4076b8f3a5357c5e395ab970b5b54098fef",
        "0x821aea9a577a9b44299b9c15c88cf3087f3b5544",
        "0x0d1d4e623d10f9fba5db95830f7d3839406c6af2",
        "0x2932b7a2355d6fecc4b5c0b6bd44cc31df247a2e",
        "0x2191ef87e392377ec08e7c08eb105ef5448eced5",
        "0x0f4f2ac550a1b4e2280d04c21cea7ebd822934b5",
        "0x6330a553fc93768f612722bb8c2ec78ac90b3bbc",
        "0x5aeda56215b167893e80b4fe645ba6d5bab767de",
    }
)


def is_well_known_dev_address(address: str) -> bool:
    """Whether the key of `address` (any spelling) is public knowledge."""
    return address.lower() in WELL_KNOWN_DEV_ADDRESSES
