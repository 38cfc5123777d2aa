"""Is what we see what we meant? Pure functions from facts to findings."""
