"""The one name that payoutd puts into site-packages; the application itself is started by `run`."""
