"""Job definitions in files: reading them with their line numbers, comparing and applying them."""
