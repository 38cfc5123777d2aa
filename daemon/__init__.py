"""The imperative shell: run it, remember it, tell people."""
