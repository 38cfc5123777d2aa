"""The loops: one `round()` a file, each safe to kill at any line."""
