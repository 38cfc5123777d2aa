"""What runs beside the daemon on one machine: the embedded PostgreSQL and the demo's scenes."""
