"""The daemon's own loops on a virtual clock, against the fake chain and a real database: a seed is a history."""
