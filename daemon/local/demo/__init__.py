"""`payoutd demo`: a guided run on a local chain, with faults on purpose and a verdict at the end."""
