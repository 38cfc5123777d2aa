"""The configuration: one YAML file, read once at start, checked whole, and frozen."""
