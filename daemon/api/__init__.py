"""HTTP in, problem+json out. The API never sends anything to a chain."""
