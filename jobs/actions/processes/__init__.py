"""Commands that operators can give to running processes."""
