"""Receivers: how an incident or a payout's step reaches people and other programs."""
