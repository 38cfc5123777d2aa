"""The pure core of a payout: states, decisions, fingerprints. No I/O, no clock, no asyncio."""
