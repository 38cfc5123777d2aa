"""Benches: each figure beside a limit measured in the same run. `python -m bench` runs them all."""
