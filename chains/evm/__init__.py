"""EVM chains: the rail and the pieces it is made of."""
