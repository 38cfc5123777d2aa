"""Signers: each holds or reaches one key and signs what it is given."""
