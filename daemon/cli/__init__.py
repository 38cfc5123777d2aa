"""The command line: one module a group, each with a `register` that `daemon.__main__` calls."""
