"""What a chain or a custody provider says and does: ports and adapters. Imports nothing of ours."""
